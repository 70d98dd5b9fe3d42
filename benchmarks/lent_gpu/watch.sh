# Waits until all is done, or $1 seconds, and brings back what there is: at most eight files.
. .demo/common.sh
mkdir -p $OUT
for i in $(seq $1); do [ -e $Q/done ] && break; sleep 1; done
cd $ROOT/tree
slim() { python3 -m rtc_agent.training.slim $T/$1.state $OUT 2>&1 | tail -3; }
if [ -e $T/model/config.json ]; then
  mkdir -p $OUT/model && cp $T/model/* $OUT/model/
  # With the model, all that a training needs to go on.
  python3 -m rtc_agent.training.from_model rest $T $OUT | tail -3
else
  [ ! -e $T/lm.state ] || slim lm
  grep -qs 'decoder rc 0' $Q/steps && slim decoder
  grep -qs 'codec done' $Q/steps && slim codec
fi
tar -C $Q -czf $OUT/logs.tgz .
cat $Q/steps; tail -n 4 $Q/probe.log 2>/dev/null | cut -c1-300; tail -n 2 $Q/lm.log | cut -c1-500; tail -qn 1 $Q/codec.log $Q/decoder.log $Q/export.log 2>/dev/null | cut -c1-200
grep '^|' $Q/evaluation.txt 2>/dev/null; ls -la $OUT; nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader
echo "$(( $(date +%s) - $(cat $Q/began) )) s since start.sh; $([ -e $Q/done ] && echo OVER || echo 'goes on: the same command again')"
