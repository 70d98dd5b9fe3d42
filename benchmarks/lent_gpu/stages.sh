# The whole training, by itself: no reply is waited for. On two GPUs the second one trains the
# decoder meanwhile; on one GPU that is done in the end, beside the evaluation.
cd /tmp/tree && . .demo/common.sh
trap 'touch $Q/done' EXIT
gpus=$(nvidia-smi -L | wc -l) each=$(( $(nproc) / $(nvidia-smi -L | wc -l) ))
note() { echo "$(date +%T) $*" >> $Q/steps; }
on() { g=$1; shift; CUDA_VISIBLE_DEVICES=$g taskset -c $(( g * each ))-$(( (g + 1) * each - 1 )) "$@"; }
give_up() { note "gave up: $1"; exit 1; }
decoder() { on $1 timeout $(left 25) $DEMO --stage decoder > $Q/decoder.log 2>&1; note "decoder rc $?"; }
lm() { on 0 $DEMO --stage lm $1 --seconds $(left 230) --workers $(( each - 4 )) >> $Q/lm.log 2>&1; R=$?; note "lm $1 rc $R"; return $R; }
export_model() { on 0 timeout 60 $DEMO --stage export >> $Q/export.log 2>&1; R=$?; note "export rc $R"; return $R; }

if [ ! -e $D/book.flac ]; then
  on 0 python3 -c "
import sys; from pathlib import Path
from rtc_agent.training.data.book import VOICE, render_book
from rtc_agent.training.data.synthesis.flite import Flite
if __name__ == '__main__': render_book(Flite((VOICE,), Path(sys.argv[1]) / 'lib')).save(Path(sys.argv[1]))" $D || give_up "no book"
fi
if ! ls $T/codec.slim-* > /dev/null 2>&1; then
  on 0 $DEMO --stage codec > $Q/codec.log 2>&1 || give_up "codec: see codec.log"
  note "codec done"
fi
[ $gpus -gt 1 ] && { decoder 1 & }
# The step as it is must work; compiled it may fail, and then is not used.
for mode in plain compiled; do
  on 0 timeout -k 5 ${PROBE:-220} python3 benchmarks/lent_gpu/probe.py $D $T $Q $mode >> $Q/probe.log 2>&1
  R=$?; note "probe $mode rc $R"
  [ $mode$R = plain0 ] || [ $mode = compiled ] || give_up "probe: see probe.log"
done
mode=$(cat $Q/mode 2>/dev/null || echo --no-compile)
lm $mode
# What failed before its first checkpoint failed for another reason than what is learned.
[ $R = 0 ] || [ -e $T/lm.state ] || [ $mode = --no-compile ] || lm --no-compile
[ $R = 0 ] || give_up "lm: see lm.log; what it has learned comes back as lm.slim files"
wait
[ $gpus -gt 1 ] && ! grep -q 'decoder rc 0' $Q/steps && mv $T/decoder.state $T/decoder.unfinished 2>/dev/null
export_model || give_up "export: see export.log"
if [ $gpus = 1 ] && [ $(left 0) -gt 200 ]; then decoder 0 & fi
if [ -d $D/evaluation ]; then
  on 0 timeout $(left 5) python3 -m rtc_agent evaluate-demo --data $D --model $T/model --device cuda:0 --rows 150 --json > $Q/evaluation.txt 2> $Q/evaluation.log
  note "evaluation rc $?"
fi
wait
if [ $gpus = 1 ] && grep -q 'decoder rc 0' $Q/steps; then export_model; fi
note "all done"
