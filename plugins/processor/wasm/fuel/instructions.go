package fuel

// Opcodes that are searched for or added.
const (
	opLoop      = 0x03
	opIf        = 0x04
	opEnd       = 0x0b
	opCall      = 0x10
	opGlobalGet = 0x23
	opGlobalSet = 0x24
	opI32Const  = 0x41
	opI32Eqz    = 0x45
	opI32Sub    = 0x6b

	opNumeric = 0xfc // prefix of saturating conversions and bulk operations
	opVector  = 0xfd // prefix of vector instructions
)

// immediate is the kind of immediate operands of an instruction.
type immediate uint8

const (
	unknown immediate = iota // not an instruction of WebAssembly 2.0
	nothing
	oneNumber // an index, a type or a constant
	twoNumbers
	fourBytes
	eightBytes
	listAndNumber // the labels of br_table
	list          // the types of select
	global        // the index of a global
	prefix        // another number selects the instruction
)

// immediates holds the immediates of all WebAssembly 2.0 instructions, by opcode.
var immediates = func() (of [256]immediate) {
	set := func(first, last int, what immediate) {
		for op := first; op <= last; op++ {
			of[op] = what
		}
	}
	set(0x00, 0x01, nothing)   // unreachable, nop
	set(0x02, 0x04, oneNumber) // block, loop, if
	set(0x05, 0x05, nothing)   // else
	set(0x0b, 0x0b, nothing)   // end
	set(0x0c, 0x0d, oneNumber) // br, br_if
	set(0x0e, 0x0e, listAndNumber)
	set(0x0f, 0x0f, nothing)    // return
	set(0x10, 0x10, oneNumber)  // call
	set(0x11, 0x11, twoNumbers) // call_indirect
	set(0x1a, 0x1b, nothing)    // drop, select
	set(0x1c, 0x1c, list)
	set(0x20, 0x22, oneNumber) // local variables
	set(opGlobalGet, opGlobalSet, global)
	set(0x25, 0x26, oneNumber)  // table.get, table.set
	set(0x28, 0x3e, twoNumbers) // loads and stores
	set(0x3f, 0x42, oneNumber)  // memory.size, memory.grow, i32.const, i64.const
	set(0x43, 0x43, fourBytes)  // f32.const
	set(0x44, 0x44, eightBytes) // f64.const
	set(0x45, 0xc4, nothing)    // arithmetic
	set(0xd0, 0xd0, oneNumber)  // ref.null
	set(0xd1, 0xd1, nothing)    // ref.is_null
	set(0xd2, 0xd2, oneNumber)  // ref.func
	set(opNumeric, opVector, prefix)
	return of
}()

// numericNumbers holds the number of immediates of the instructions with the prefix opNumeric, starting at memory.init.
var numericNumbers = [...]int{2, 1, 2, 1, 2, 1, 2, 1, 1, 1}

// skip skips the immediates of the instruction.
func (r *reader) skip(op byte) {
	switch immediates[op] {
	case oneNumber:
		r.numbers(1)
	case twoNumbers:
		r.numbers(2)
	case fourBytes:
		r.take(4)
	case eightBytes:
		r.take(8)
	case listAndNumber:
		r.numbers(int(r.number()) + 1)
	case list:
		r.numbers(int(r.number()))
	case prefix:
		r.skipPrefixed(op, r.number())
	}
}

func (r *reader) skipPrefixed(prefix byte, op uint64) {
	if prefix == opNumeric {
		switch {
		case op >= 8+uint64(len(numericNumbers)):
			r.fail(errInstruction)
		case op >= 8:
			r.numbers(numericNumbers[op-8])
		}
		return
	}
	switch {
	case op <= 11, op == 92, op == 93: // loads and stores
		r.numbers(2)
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		r.take(16)
	case op >= 21 && op <= 34: // a lane
		r.take(1)
	case op >= 84 && op <= 91: // loads and stores of a lane
		r.numbers(2)
		r.take(1)
	case op > 255:
		r.fail(errInstruction)
	}
}
