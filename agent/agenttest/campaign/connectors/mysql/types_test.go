package mysql_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/plugintest"
)

// columnOfType is a column with values of two rows.
type columnOfType struct {
	name, declared string
	values         []string
}

// columnsOfTypes has a type and values for each column of a table, in pairs of a row and its changed version.
var columnsOfTypes = []columnOfType{
	{"t1", "tinyint", []string{"-128", "127"}}, {"ut1", "tinyint unsigned", []string{"255", "0"}},
	{"b1", "bool", []string{"true", "false"}},
	{"t2", "smallint", []string{"-32768", "32767"}}, {"ut2", "smallint unsigned", []string{"65535", "1"}},
	{"t3", "mediumint", []string{"-8388608", "8388607"}}, {"ut3", "mediumint unsigned", []string{"16777215", "1"}},
	{"t4", "int", []string{"-2147483648", "2147483647"}}, {"ut4", "int unsigned", []string{"4294967295", "1"}},
	{"z4", "int(6) zerofill", []string{"42", "7"}},
	{"y", "year", []string{"2026", "1901"}},
	{"t8", "bigint", []string{"-9223372036854775808", "9223372036854775807"}},
	{"ut8", "bigint unsigned", []string{"18446744073709551615", "1"}},
	{"d", "decimal(30,10)", []string{"-12345678901234567890.0123456789", "0.1"}}, {"d0", "decimal(9,0)",
		[]string{"-999999999", "0"}}, {"df", "decimal(5,5)", []string{"-0.00012", "0.99999"}}, {"db", "decimal(65,30)",
		[]string{"-99999999999999999999999999999999999.999999999999999999999999999999", "12"}},
	{"f", "float", []string{"1.2345678", "-1e30"}}, {"fd", "double", []string{"-1.2345678901234567e-300", "0.1"}},
	{"bit1", "bit(1)", []string{"b'1'", "b'0'"}}, {"bit9", "bit(9)", []string{"b'100000001'", "b'11'"}},
	{"bit64", "bit(64)", []string{"b'1111111111111111111111111111111111111111111111111111111111111111'", "1"}},
	{"da", "date", []string{"'2026-01-02'", "'0000-00-00'"}}, {"da2", "date", []string{"'9999-12-31'", "'2026-02-00'"}},
	{"ti", "time", []string{"'-838:59:59'", "'00:00:01'"}},
	{"ti1", "time(1)", []string{"'-00:00:00.1'", "'12:34:56.7'"}}, {"ti3", "time(3)",
		[]string{"'-12:34:56.789'", "'0'"}}, {"ti6", "time(6)", []string{"'-12:34:56.000001'", "'838:59:58.999999'"}},
	{"dt", "datetime", []string{"'2026-01-02 03:04:05'", "'0000-00-00 00:00:00'"}}, {"dt2", "datetime(2)",
		[]string{"'1000-01-01 00:00:00.01'", "'0000-00-00'"}},
	{"dt6", "datetime(6)", []string{"'9999-12-31 23:59:59.999999'", "'2026-01-02 03:04:05'"}},
	{"ts", "timestamp NULL", []string{"'2026-01-02 03:04:05'", "'1970-01-01 00:00:01'"}}, {"ts4", "timestamp(4) NULL",
		[]string{"'2026-01-02 03:04:05.6789'", "'2037-12-31 23:59:59.9999'"}},
	{"ts0", "timestamp NULL", []string{"0", "NULL"}},
	{"c", "char(5)", []string{"'ab '", "'ä€'"}}, {"v", "varchar(10)", []string{"''", "'trailing '"}},
	{"vl", "varchar(300)", []string{"repeat('é', 300)", "'x'"}},
	{"c200", "char(200)", []string{"repeat('€', 200)", "''"}},
	{"bi", "binary(6)", []string{"x'00ff00'", "x''"}}, {"vb", "varbinary(300)",
		[]string{"x'00ff00'", "repeat(x'ff', 300)"}}, {"bl", "blob", []string{"x'00ff'", "''"}},
	{"tb", "tinyblob", []string{"x'01'", "NULL"}}, {"mb", "mediumblob", []string{"repeat('m', 70000)", "''"}},
	{"lb", "longblob", []string{"x'02'", "x'03'"}},
	{"te", "text", []string{"'grüße 🙂'", "''"}}, {"tt", "tinytext", []string{"'a'", "''"}},
	{"mt", "mediumtext", []string{"repeat('ü', 40000)", "'b'"}}, {"lt", "longtext", []string{"'c'", "'d'"}},
	{"l1", "varchar(20) CHARACTER SET latin1", []string{"'grüße €'", "''"}}, {"cy", "text CHARACTER SET cp1251",
		[]string{"'привет'", "'x'"}}, {"gb", "varchar(20) CHARACTER SET gbk", []string{"'你好'", "''"}},
	{"u16", "char(5) CHARACTER SET utf16", []string{"'🙂é'", "''"}}, {"asc1", "varchar(5) CHARACTER SET ascii",
		[]string{"'a'", "'b'"}},
	{"e", "enum('a','b''c','x,y')", []string{"'b''c'", "'x,y'"}}, {"el", "enum('ä','ö') CHARACTER SET latin1",
		[]string{"'ö'", "'ä'"}}, {"s", "set('a','b','c','d','e','f','g','h','i')", []string{"'a,i'", "''"}},
	{"sl", "set('ä','ß') CHARACTER SET latin1", []string{"'ä,ß'", "'ß'"}},
	{"j", "json", []string{`'{"a": [1, null]}'`, "'1'"}},
	{"u", "uuid", []string{"'6b86b273-ff34-4ce1-9d6b-804eff5a3f57'", "'123e4567-e89b-12d3-a456-426655440000'"}},
	{"u0", "uuid", []string{"'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"}},
	{"u7", "uuid", []string{"'019571c8-31cf-7b2c-a1ad-2d43c6b7f700'", "'6b86b273-ff34-4ce1-1d6b-804eff5a3f00'"}},
	{"i6", "inet6", []string{"'2001:db8::ff00:42:8329'", "'::ffff:10.0.0.1'"}},
	{"i60", "inet6", []string{"'::'", "'fe80::'"}}, {"i4", "inet4", []string{"'10.0.0.0'", "'255.255.255.255'"}},
	{"g", "geometry", []string{"ST_GeomFromText('POINT(1 2)')", "NULL"}},
	{"pt", "point", []string{"ST_GeomFromText('POINT(3 4)')", "NULL"}},
	{"co", "text COMPRESSED", []string{"repeat('compressed ', 100)", "'short'"}}, {"cov", "varchar(500) COMPRESSED",
		[]string{"repeat('c', 400)", "''"}}, {"cob", "blob COMPRESSED", []string{"repeat(x'00', 1000)", "x'00'"}},
	{"nul", "int", []string{"NULL", "NULL"}},
}

// types has columns of every type, and reads the same values from rows as from changes, before and after.
func types(w *world) {
	var declared, names []string
	rows := make([][]string, 2)
	for _, c := range columnsOfTypes {
		if !w.hasType(c.declared) {
			continue
		}
		declared, names = append(declared, c.name+" "+c.declared), append(names, c.name)
		rows[0], rows[1] = append(rows[0], c.values[0]), append(rows[1], c.values[1])
	}
	generated := ", gv bigint AS (t4 * 2) VIRTUAL, gs int AS (id * 2) STORED"
	if !w.isMariaDB() {
		generated = ""
	}
	w.exec("SET sql_mode = 'ALLOW_INVALID_DATES'; SET NAMES utf8mb4; CREATE TABLE t (id int PRIMARY KEY, " +
		strings.Join(declared, ", ") + generated + ")")
	insert := func(id int) string {
		return fmt.Sprintf("INSERT INTO t (id, %s) VALUES (%d, %s)", strings.Join(names, ", "), id,
			strings.Join(rows[id%2], ", "))
	}
	w.exec("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', names utf8mb4; " + insert(0) + ";" + insert(1))
	s := w.open(w.sourceSettings("t"), nil)
	snapshot := s.Next(2)
	w.exec("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'; UPDATE t SET id = id + 10")
	changes := s.Next(4)
	for i := range 2 {
		want, got := plugintest.Show(snapshot[i : i+1])[0], plugintest.Show(changes[2*i : 2*i+1])[0]
		_, want, _ = strings.Cut(want, " to ")
		_, got, _ = strings.Cut(got, " from ")
		if got != want {
			w.Errorf("a change of row %d reads\n%s\nand the row\n%s", i, different(got, want), different(want, got))
		}
	}
	w.checkTypes(plugintest.Show(snapshot))
}

// isMariaDB reports whether the server is a MariaDB, which has more types than the MySQL of tests.
func (w *world) isMariaDB() bool {
	w.Helper()
	return strings.Contains(w.query("SELECT version()"), "MariaDB")
}

// hasType reports whether the server has the type of a column.
func (w *world) hasType(declared string) bool {
	w.Helper()
	return w.isMariaDB() || declared != "json" && declared != "uuid" && !strings.HasPrefix(declared, "inet") &&
		!strings.HasSuffix(declared, "COMPRESSED")
}

// different returns the fields of a that b does not have.
func different(a, b string) string {
	var all []string
	for field := range strings.SplitSeq(a, `,"`) {
		if !strings.Contains(b, field) {
			all = append(all, field)
		}
	}
	return strings.Join(all, "\n")
}

// checkTypes checks the forms of values.
func (w *world) checkTypes(rows []string) {
	w.Helper()
	for row, fields := range [][]string{
		{`"t1":-128,`, `"ut8":18446744073709551615,`, `"d":"-12345678901234567890.0123456789"`, `"f":1.2345678,`,
			`"bit9":257,`, `"da":"2026-01-02T00:00:00Z"`, `"ti6":"-12:34:56.000001"`,
			`"dt6":"9999-12-31T23:59:59.999999Z"`,
			`"ts4":"2026-01-02T03:04:05.6789Z"`, `"bi":"AP8AAAAA"`, `"cy":"привет"`, `"gb":"你好"`, `"u16":"🙂é"`,
			`"e":"b'c"`, `"s":"a,i"`, `"sl":"ä,ß"`, `"u":"6b86b273-ff34-4ce1-9d6b-804eff5a3f57"`,
			`"i6":"2001:db8::ff00:42:8329"`, `"y":2026,`, `"df":"-0.00012"`},
		{`"da":"0000-00-00"`, `"dt2":"0000-00-00 00:00:00.00"`, `"da2":"2026-02-00"`, `"i6":"::ffff:10.0.0.1"`,
			`"u":"123e4567-e89b-12d3-a456-426655440000"`, `"j":"1"`, `"ts":"1970-01-01T00:00:01Z"`, `"nul":null`},
	} {
		for _, field := range fields {
			name, _, _ := strings.Cut(field, ":")
			if i := slices.IndexFunc(columnsOfTypes, func(c columnOfType) bool {
				return `"`+c.name+`"` == name
			}); !w.hasType(columnsOfTypes[i].declared) {
				continue
			}
			if !strings.Contains(rows[row], field) {
				w.Errorf("row %d has no %s:\n%s", row, field, rows[row])
			}
		}
		for _, generated := range []string{`"gv"`, `"gs"`} {
			if strings.Contains(rows[row], generated) {
				w.Errorf("row %d has the generated column %s", row, generated)
			}
		}
	}
}
