# Sourced by the others, on a machine that is lent for commands of ten minutes each. What is in $OUT
# comes back after each; /tmp, and what runs in a session of its own, last between them.
set -o pipefail
[ ! -e .demo/settings ] || . .demo/settings
# Before threads are limited: nproc counts no more than those.
CORES=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
ROOT=${ROOT:-/tmp}
export PYTHONUNBUFFERED=1 PYTHONPATH=$ROOT/site:$ROOT/tree OMP_NUM_THREADS=2
export TORCHINDUCTOR_CACHE_DIR=$ROOT/inductor
T=$ROOT/train D=$ROOT/data Q=$ROOT/logs
# The same throughout one training, on however many machines: rates follow the part that is over.
# One that goes on adds what is to come to what was spent.
S="--seconds-codec 270 --seconds-decoder 150 --seconds-lm ${SECONDS_LM:-1000}"
DEMO="python3 -m rtc_agent train-demo --data $D --out $T --device ${DEVICE:-cuda:0} $S"
# Seconds after start.sh at which nothing is begun any more, and everything is over.
ENDS=${ENDS:-1560}
left() { echo $(( $(cat $Q/began) + ENDS - $1 - $(date +%s) )); }
