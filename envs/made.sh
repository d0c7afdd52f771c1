#!/usr/bin/env bash
# Says what a run left and how to look at it.
set -u
cd "$(dirname "$0")/.." && folder=$1
echo
echo "made in $folder:"
[ -e "$folder/paper.pdf" ] && echo "  paper.pdf      the paper                     xdg-open $folder/paper.pdf" ||
    echo "  (no paper.pdf: LaTeX is missing, see the line above; run again after installing it)"
echo "  figures/       PDF and PNG                   ls $folder/figures"
echo "  tables/        CSV, columns with their units column -s, -t $folder/tables/throughput.csv | less -S"
echo "  raw/           the records                   see docs/records.md"
