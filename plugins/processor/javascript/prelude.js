// Functions whose built-in version walks what a script made without a chance to interrupt it. JavaScript code is
// interrupted between any two of its instructions, and its calls are counted.
(() => {
	const {isArray, prototype: array} = Array, {apply} = Reflect, {defineProperty, keys} = Object
	const spreadable = o => {
		if (o === null || typeof o !== "object" && typeof o !== "function") return false
		const is = o[Symbol.isConcatSpreadable]
		return is === undefined ? isArray(o) : Boolean(is)
	}
	const put = (o, key, value) => defineProperty(o, key, {value, writable: true, enumerable: true, configurable: true})
	const flatten = (to, list, depth) => {
		for (let i = 0, n = list.length; i < n; i++) {
			if (!(i in list)) continue
			if (depth > 0 && isArray(list[i])) flatten(to, list[i], depth - 1)
			else to.push(list[i])
		}
		return to
	}
	const methods = {
		concat(...lists) {
			const to = []
			let length = 0
			for (const list of [Object(this), ...lists]) {
				if (!spreadable(list)) {
					to[length++] = list
					continue
				}
				for (let i = 0, n = list.length; i < n; i++, length++) if (i in list) to[length] = list[i]
			}
			to.length = length
			return to
		},
		flat(depth = 1) { return flatten([], Object(this), +depth) },
		flatMap(f, self) { return flatten([], array.map.call(this, f, self), 1) },
	}
	const texts = {
		raw(template, ...values) {
			const parts = Object(template).raw
			let text = ""
			for (let i = 0, n = parts.length; i < n; i++) {
				text += parts[i]
				if (i + 1 < n && i < values.length) text += values[i]
			}
			return text
		},
	}
	for (const [to, from] of [[array, methods], [String, texts]])
		for (const name of keys(from)) defineProperty(to, name, {value: from[name], writable: true, configurable: true})

	return {
		empty() {},
		number: v => -(-v),

		// revive calls the second argument of JSON.parse for a value and all values in it, innermost first.
		revive(holder, key, reviver) {
			const walk = (holder, key) => {
				const value = holder[key]
				if (value !== null && typeof value === "object") {
					const list = isArray(value), own = list ? value : keys(value)
					for (let i = 0, n = own.length; i < n; i++) {
						const key = list ? String(i) : own[i], revived = walk(value, key)
						if (revived === undefined) delete value[key]
						else put(value, key, revived)
					}
				}
				return apply(reviver, holder, [key, value])
			}
			return walk(holder, key)
		},

		// split is RegExp.prototype[Symbol.split] for a pattern with the flag g and without y.
		split(text, pattern, limit) {
			const parts = []
			let begin = 0
			for (let at = 0; parts.length < limit;) {
				pattern.lastIndex = at
				const match = pattern.exec(text)
				if (match === null || match.index >= text.length) break
				const end = match.index + match[0].length
				if (end === begin) {
					at++
					continue
				}
				parts.push(text.slice(begin, match.index), ...match.slice(1))
				begin = at = end
			}
			parts.push(text.slice(begin))
			if (parts.length > limit) parts.length = limit
			return parts
		},
	}
})()
