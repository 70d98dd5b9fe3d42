# Sourced by the others, on a machine that is lent for commands of ten minutes each. What is in $OUT
# comes back after each; /tmp, and what runs in a session of its own, last between them.
set -o pipefail
export PYTHONUNBUFFERED=1 PYTHONPATH=/tmp/site:/tmp/tree OMP_NUM_THREADS=2
export TORCHINDUCTOR_CACHE_DIR=/tmp/inductor
T=/tmp/train D=/tmp/data Q=/tmp/logs
# The same throughout one training, on however many machines: rates follow the part that is over.
S="--seconds-codec 270 --seconds-decoder 150 --seconds-lm ${SECONDS_LM:-1000}"
DEMO="python3 -m rtc_agent train-demo --data $D --out $T --device cuda:0 $S"
# Seconds after start.sh at which nothing is begun any more, and everything is over.
ENDS=${ENDS:-1560}
left() { echo $(( $(cat $Q/began) + ENDS - $1 - $(date +%s) )); }
