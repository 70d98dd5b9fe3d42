#!/bin/sh
# Packs into .demo what a lent machine without a network needs to train the demo agent, besides this
# repository: `sh benchmarks/lent_gpu/pack.sh build/demo-data WHEELS`. WHEELS is a folder of wheels
# for that machine, of what its Python lacks.
set -e
data=$1 wheels=$2
grep -qx '/.demo/' .git/info/exclude || echo '/.demo/' >> .git/info/exclude
rm -rf .demo && mkdir -p .demo/whl
cp "$wheels"/*.whl .demo/whl/
cp benchmarks/lent_gpu/c*.sh .demo/
tar -C "$data" -cf - $(cd "$data" && ls -d prepared lib book.flac book.json callers evaluation 2>/dev/null) | xz -T2 -3 > .demo/data.tar.xz
du -sb .demo
git ls-files -z | xargs -0 du -cb | tail -1
