package expr

// language documents the expression language. A test compares its functions with the available functions.
const language = `

Expressions are those of expr-lang 1.17, https://expr-lang.org/docs/language-definition. They are compiled, and their types checked, when
the file is saved; a record for which an expression fails is refused.

- names: ` + "`operation` (`\"create\"`, `\"update\"`, `\"delete\"` or `\"snapshot\"`), `metadata` (texts by name), `key`, `before` and `after`" + `
  (objects; raw data is bytes, and ` + "`text(after)`" + ` converts it to text), ` + "`position`" + ` (bytes)
- values: ` + "`\"text\"`, `12`, `1.5`, `true`, `nil`, `[1, 2]`, `{\"a\": 1}`, `1..3`" + `
- fields: ` + "`after.a.b`, `after[\"a b\"]`, `after.list[0]`, `after.list[-1]`, `after.list[1:3]`, `after?.a?.b`" + `; one that is not there is ` + "`nil`" + `
- operators: ` + "`+ - * / % **`, `== != < <= > >=`, `and or not && || !`, `a ? b : c`, `a ?? b` (b when a is nil)" + `, ` +
	"`in`, `contains`, `startsWith`, `endsWith`, `matches` (a regular expression), `a | f(b)` for `f(a, b)`, `let x = 1; x + 1`" + `
- functions of texts: ` + "`text(v)`, `string(v)`, `len(s)`, `upper(s)`, `lower(s)`, `trim(s)`, `trimPrefix(s, p)`, `trimSuffix(s, p)`, `split(s, by)`, `splitAfter(s, by)`, `join(list, by)`, `replace(s, old, new)`, `repeat(s, n)`, `indexOf(s, part)`, `lastIndexOf(s, part)`, `hasPrefix(s, p)`, `hasSuffix(s, p)`" + `
- functions of numbers: ` + "`int(v)`, `float(v)`, `abs(n)`, `ceil(n)`, `floor(n)`, `round(n)`, `min(a, b)`, `max(a, b)`, `sum(list)`, `mean(list)`, `median(list)`, `bitand(a, b)`, `bitor(a, b)`, `bitxor(a, b)`, `bitnand(a, b)`, `bitnot(a)`, `bitshl(a, n)`, `bitshr(a, n)`, `bitushr(a, n)`" + `
- functions of lists, where ` + "`#`" + ` is the element, ` + "`#index`" + ` its place and ` + "`.x`" + ` its field: ` +
	"`all(list, # > 0)`, `any(list, .paid)`, `one(list, # > 0)`, `none(list, # > 0)`, `filter(list, # > 0)`, `map(list, .id)`, `find(list, # > 0)`, `findIndex(list, # > 0)`, `findLast(list, # > 0)`, `findLastIndex(list, # > 0)`, `count(list, # > 0)`, `groupBy(list, .kind)`, `sortBy(list, .price)`, `reduce(list, #acc + #, 0)`, `first(list)`, `last(list)`, `take(list, n)`, `sort(list)`, `reverse(list)`, `uniq(list)`, `concat(a, b)`, `flatten(list)`" + `
- functions of objects: ` + "`keys(o)`, `values(o)`, `toPairs(o)`, `fromPairs(list)`, `get(o, name)`" + `
- functions of times: ` + "`now()`, `date(\"2024-01-31\")`, `date(s, layout, zone)`, `duration(\"1h30m\")`, `timezone(\"Europe/Berlin\")`" + `; a time has methods such as ` + "`.Year()`, `.Add(d)`, `.Unix()` and `.Format(\"2006-01-02\")`" + `
- formats: ` + "`toJSON(v)`, `fromJSON(s)`, `toBase64(s)`, `fromBase64(s)`, `type(v)`" + `
`
