#!/bin/bash
# comm_perf really run: each operation on ranks that it starts itself, every element compared.
set -eu
perf=$1

for operation in all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all send_recv; do
  "$perf" "$operation" -b 24 -e 200K -f 19 -t bf16 -n 2 -w 1 -c 1 --ranks 3 > out.txt
  grep -q '^# wrong elements: 0 OK$' out.txt || { cat out.txt; exit 1; }
  # A row for each of the four sizes.
  [ "$(grep -c '^ ' out.txt)" -eq 4 ] || { cat out.txt; exit 1; }
done
"$perf" barrier -n 2 --ranks 2 > /dev/null
"$perf" all_reduce -e 64K -f 8 -n 2 --ranks 2 --symmetric --json out.json --plot out.svg | grep -q '0 OK'
python3 - << 'PYTHON'
import json, xml.dom.minidom
rows = json.load(open("out.json"))["rows"]
assert [r["bytes"] for r in rows] == [8, 64, 512, 4096, 32768], rows
assert all(r["in_place"]["wrong"] == 0 and r["in_place"]["p50_us"] > 0 for r in rows), rows
xml.dom.minidom.parse("out.svg")
PYTHON

# Beside what memory allows; with one more run that is written afresh each time.
for operation in all_reduce broadcast gather; do
  "$perf" "$operation" -b 1K -e 64K -f 8 -n 3 --bound --fresh --ranks 3 --json bound.json | grep -q '0 OK'
  python3 -c '
import json
run = json.load(open("bound.json"))
assert run["fresh"]
# Below 4 KiB there is no bound to be near to.
assert ["bound_gbs" in r for r in run["rows"]] == [r["bytes"] > 4096 for r in run["rows"]], run
assert all(r["bound_gbs"] > 0 for r in run["rows"][1:]), run'
done

# One rank: nothing is left to take time, and what the result is is right all the same.
for operation in all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all send_recv; do
  "$perf" "$operation" -e 64K -f 64 -n 2 --backend single_gpu --ranks 1 > out.txt
  grep -q '^# wrong elements: 0 OK$' out.txt || { cat out.txt; exit 1; }
done

# What cannot be measured is refused in words.
if "$perf" broadcast -r 2 --ranks 2 2> err.txt; then echo "-r 2 of 2 ranks was accepted"; exit 1; fi
grep -q -- '-r 2: the world has 2 ranks' err.txt || { cat err.txt; exit 1; }
if "$perf" --backend x --ranks 2 2> err.txt; then echo "--backend x was accepted"; exit 1; fi
grep -q -- "--backend 'x': this program was built with host single_gpu" err.txt || { cat err.txt; exit 1; }
echo "comm_perf: all operations right"
