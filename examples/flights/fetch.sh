#!/bin/sh
# Fetches the full flights data: three million numbered records as CSV files below data/flights-3m, and data/airports.csv.
#
#   examples/flights/fetch.sh [DATA_DIR]
#
# The data is an npm package; what it holds is checked against the digests below. What is there already stays, except
# files of an earlier release whose rows have no numbers.
set -eu

package=vega-datasets@3.2.1
flights_sha256=dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0
airports_sha256=903c7169e6d558eefb95295fe2947ec8503135fbb855ea5c737cf4a90ea603ad
files=8
export GOTOOLCHAIN="${GOTOOLCHAIN:-go1.27.3}"

root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${1:-$root/data}"
data=$(cd "${1:-$root/data}" && pwd)

numbered() { head -n 1 "$data/flights-3m/part-000.csv" 2>/dev/null | grep -q ',row$'; }

if numbered && [ -f "$data/airports.csv" ]; then
	echo "$data/flights-3m and $data/airports.csv are there already"
	exit 0
fi
for tool in npm tar go; do
	command -v "$tool" >/dev/null || { echo "fetch.sh needs $tool: the data is the npm package $package, converted by a Go program" >&2; exit 1; }
done

tmp=$(mktemp -d "$data/.fetch-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

digest() {
	if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}
check() {
	got=$(digest "$1")
	[ "$got" = "$2" ] || { echo "fetch.sh: $1 has digest $got, expected $2" >&2; exit 1; }
}

echo "fetching $package"
(cd "$tmp" && npm pack --silent "$package" >/dev/null) || { echo "fetch.sh: npm could not fetch $package" >&2; exit 1; }
tar -xzf "$tmp"/*.tgz -C "$tmp" package/data/flights-3m.parquet package/data/airports.csv
check "$tmp/package/data/flights-3m.parquet" "$flights_sha256"
check "$tmp/package/data/airports.csv" "$airports_sha256"

if ! numbered; then
	echo "converting to CSV"
	go -C "$root/connector/parquet" run ./cmd/parquet2csv -files "$files" -row row "$tmp/package/data/flights-3m.parquet" "$tmp/flights-3m"
	[ ! -d "$data/flights-3m" ] || mv "$data/flights-3m" "$tmp/old"
	mv "$tmp/flights-3m" "$data/flights-3m"
fi
mv "$tmp/package/data/airports.csv" "$data/airports.csv"
echo "data is in $data/flights-3m and $data/airports.csv"
