import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { DuckDBInstance } = createRequire(process.argv[1])('@duckdb/node-api');
const connection = await (await DuckDBInstance.create(':memory:')).connect();
await connection.run("SET TimeZone = 'UTC'");
const result = await connection.runAndReadAll(readFileSync(0, 'utf8'));
const types = result.columnTypes();
console.log(JSON.stringify({
  Types: Object.fromEntries(result.columnNames().map((name, i) => [name, String(types[i])])),
  Rows: result.getRowObjectsJson(),
}));
