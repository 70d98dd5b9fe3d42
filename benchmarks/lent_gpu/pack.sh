#!/bin/sh
# Packs into .demo and .demo-data what a lent machine without a network needs to train the demo agent:
# `sh benchmarks/lent_gpu/pack.sh build/demo-data WHEELS [TRAINED [MODEL]]`. WHEELS is a folder of
# wheels for that machine, of what its Python lacks; TRAINED one of *.slim-*.pt files, what was
# learned before. MODEL is what was exported of that, a folder of this tree: it travels anyway, and
# only what it lacks is packed, made of TRAINED's files or, as it came back with the model, *.rest.pt
# there. SECONDS_LM and ENDS, of common.sh, are packed too. The code is that of HEAD, so that edits
# meanwhile do not matter; the working tree travels too.
set -e
data=$1 wheels=$2 trained=$3 model=$4 most=67108864
for folder in .demo .demo-data; do
  grep -qx "/$folder/" .git/info/exclude || echo "/$folder/" >> .git/info/exclude
  rm -rf $folder && mkdir -p $folder
done
mkdir .demo/whl
cp "$wheels"/*.whl .demo/whl/
cp benchmarks/lent_gpu/common.sh benchmarks/lent_gpu/start.sh benchmarks/lent_gpu/stages.sh benchmarks/lent_gpu/watch.sh .demo/
git archive HEAD rtc_agent benchmarks/lent_gpu ':(exclude)rtc_agent/demo' | xz -3 > .demo/tree.tar.xz
if [ -n "$model" ]; then
  if ls "$trained"/*.rest.pt > /dev/null 2>&1; then
    mkdir .demo/rest && cp "$trained"/*.rest.pt .demo/rest/
  else
    "${PYTHON:-python3}" -m rtc_agent.training.from_model rest "$trained" .demo/rest
  fi
  echo "$model" > .demo/from
elif [ -n "$trained" ]; then
  tar -C "$trained" -cf - $(cd "$trained" && ls -d *.slim-*.pt) | xz -T2 -6 > .demo/trained.tar.xz
fi
# The same in every command there; what is given here may be set otherwise there.
echo "SECONDS_LM=\${SECONDS_LM:-${SECONDS_LM:-1000}} ENDS=\${ENDS:-${ENDS:-1560}}" > .demo/settings
tracked=$(git ls-files -z | xargs -0 du -cb 2>/dev/null | tail -1 | cut -f1)
# In two folders, each carried by a command of its own, since one may not hold all. The book is
# rendered there, in 15 s and to the bit; without the second folder a few voices are missed, and the
# evaluation is done elsewhere.
parts() { (cd "$data" && ls -d "$@" 2>/dev/null); }
tar -C "$data" -cf - $(parts prepared lib tokenizer.model) | xz -T2 -3 > .demo/data.tar.xz
tar -C "$data" -cf - $(parts callers evaluation) | xz -T2 -0 > .demo-data/data.tar.xz
ls -l .demo .demo-data
for folder in .demo .demo-data; do
  carried=$(du -sb $folder | cut -f1)
  echo "$folder: carried $carried + tracked $tracked = $((carried + tracked)) of $most"
  [ $((carried + tracked)) -lt $most ]
done
