// Package file reads and writes local files.
//
// Sources take a file, a directory (its files at any depth, without hidden ones) or a glob pattern, and read text
// lines, CSV with a header, or JSON lines; names that end in .gz are decompressed. Discovery lists the files in the
// order of their names and notes size and modification time: a file that changes afterwards fails the job instead of
// giving half-old records. Large files are cut into byte ranges where records can be found by a line break alone;
// gzip and CSV that may hold quoted line breaks are read as a whole.
//
// The sink writes part files that appear only when their output is committed, by a rename inside the directory; two
// jobs that share a directory do not touch each other's files.
package file
