# Sourced by the others, in the repository's root on a machine that is lent for commands of ten minutes each. Files in $OUT come back; /tmp lasts between commands.
set -o pipefail
export PYTHONUNBUFFERED=1 PYTHONPATH=/tmp/site:$PWD OMP_NUM_THREADS=2
T=/tmp/train; D=/tmp/data; B=$(date +%s)
mkdir -p $T
[ -d /tmp/site ] || python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target /tmp/site .demo/whl/*.whl || exit 9
[ -d $D ] || { mkdir $D.part && tar -C $D.part -xf .demo/data.tar.xz && mv $D.part $D; } || exit 9
demo() { python3 -m rtc_agent train-demo --data $D --out $O --device cuda:0 "$@"; }
left() { echo $(( $1 - ($(date +%s) - B) )); }
# Weights of a state, in float16 and without the optimizer, as files that fit what may come back.
slim() { python3 - "$1" "$2" <<'P'
import sys, torch
s = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
t = {k: v.half() if v.is_floating_point() else v for k, v in s["trainer"]["tensors"].items()}
torch.save({"trainer": {"tensors": t}, "spent": s["spent"], "step": s["step"]}, sys.argv[2])
P
}
S="--seconds-codec 270 --seconds-decoder 150 --seconds-lm 600"
# Export; without the decoder's fine-tuning if that did not come to its end.
export_model() {
  demo --stage export $S 2>&1 | tee -a $OUT/export.log && return
  [ -e $O/decoder.state ] || return 1
  mv $O/decoder.state $O/decoder.unfinished
  demo --stage export $S 2>&1 | tee -a $OUT/export.log
}
