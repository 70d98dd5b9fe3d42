# The whole training, by itself: no reply is waited for. On two GPUs the second one trains the
# decoder meanwhile; on one GPU that is done in the end, beside the evaluation. What was trained
# before is not trained again.
cd "${ROOT:-/tmp}/tree" && . .demo/common.sh
trap 'touch $Q/done' EXIT
gpus=$(nvidia-smi -L | wc -l)
each=$(( CORES / gpus > 0 ? CORES / gpus : 1 ))
workers=$(( each > 5 ? each - 4 : 1 ))
had() { [ -e $T/$1.state ] || ls $T/$1.slim-* > /dev/null 2>&1; }
note() { echo "$(date +%T) $*" >> $Q/steps; }
on() { g=$1; shift; CUDA_VISIBLE_DEVICES=$g taskset -c $(( g * each ))-$(( (g + 1) * each - 1 )) "$@"; }
give_up() { note "gave up: $1"; exit 1; }
decoder() { on $1 timeout $(left 25) $DEMO --stage decoder > $Q/decoder.log 2>&1; note "decoder rc $?"; }
lm() { on 0 $DEMO --stage lm $1 --seconds $(left 230) --workers $workers >> $Q/lm.log 2>&1; R=$?; note "lm $1 rc $R"; return $R; }
export_model() { on 0 timeout 60 $DEMO --stage export >> $Q/export.log 2>&1; R=$?; note "export rc $R"; return $R; }

note "$gpus GPUs, $each cores each, $workers workers"
if [ ! -e $D/book.flac ]; then
  on 0 python3 -c "
import sys; from pathlib import Path
from rtc_agent.training.data.book import VOICE, render_book
from rtc_agent.training.data.synthesis.flite import Flite
if __name__ == '__main__': render_book(Flite((VOICE,), Path(sys.argv[1]) / 'lib')).save(Path(sys.argv[1]))" $D || give_up "no book"
  note "book done"
fi
if ! had codec; then
  on 0 $DEMO --stage codec > $Q/codec.log 2>&1 || give_up "codec: see codec.log"
  note "codec done"
fi
decoded=no; had decoder && decoded=yes
[ $gpus -gt 1 ] && [ $decoded = no ] && { decoder 1 & }
# Compiled only where a probe of at most $PROBE seconds says that it is faster and finds the same.
mode=--no-compile
if [ ${PROBE:-0} -gt 0 ]; then
  until=$(( $(date +%s) + PROBE ))
  for probed in plain compiled; do
    on 0 timeout -k 5 $(( until - $(date +%s) )) python3 benchmarks/lent_gpu/probe.py $D $T $Q $probed >> $Q/probe.log 2>&1
    R=$?; note "probe $probed rc $R"
    [ $R = 0 ] || break
  done
  mode=$(cat $Q/mode 2>/dev/null || echo --no-compile)
fi
lm $mode
# What was compiled may fail where the same uncompiled does not.
if [ $R != 0 ] && [ $mode != --no-compile ] && [ $(left 230) -gt 60 ]; then lm --no-compile; fi
[ $R = 0 ] || give_up "lm: see lm.log; what it has learned comes back as lm.slim files"
wait
[ $gpus -gt 1 ] && [ $decoded = no ] && ! grep -q 'decoder rc 0' $Q/steps && mv $T/decoder.state $T/decoder.unfinished 2>/dev/null
export_model || give_up "export: see export.log"
late=no
if [ $gpus = 1 ] && [ $decoded = no ] && [ $(left 0) -gt 200 ]; then late=yes; decoder 0 & fi
if [ -d $D/evaluation ]; then
  on 0 timeout $(left 5) python3 -m rtc_agent evaluate-demo --data $D --model $T/model --device ${DEVICE:-cuda:0} --rows ${ROWS:-150} $EVALUATE --json > $Q/evaluation.txt 2> $Q/evaluation.log
  note "evaluation rc $?"
fi
wait
if [ $late = yes ] && grep -q 'decoder rc 0' $Q/steps; then export_model; fi
note "all done"
