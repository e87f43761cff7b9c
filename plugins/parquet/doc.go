// Package parquet encodes records as Parquet files: with fixed columns, or with a column for each field of their
// payloads.
package parquet
