// Command parquet2csv turns a Parquet file with flat columns into CSV files, in the order of its rows:
//
//	parquet2csv -files 8 flights.parquet data/flights
//
// Timestamps become "2006-01-02 15:04:05" in UTC, with a fraction only where there is one; nulls become empty cells.
// -row NAME adds a last column that numbers the rows from 0, because the order of rows is lost when CSV files are read in
// parallel. The output directory must not exist; it appears when it is complete.
package main
