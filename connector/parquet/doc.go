// Package parquet reads Parquet files. It is a module of its own, so that only jobs that use it link a Parquet library.
//
// A split is one row group; a position is a row in it. As with other files, size and modification time are noted when
// a file is discovered, and a file that changes afterwards fails the job.
package parquet
