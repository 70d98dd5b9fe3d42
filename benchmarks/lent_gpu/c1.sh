# Codec, then decoder beside the first part of the language model. Up to 590 s.
. .demo/common.sh; O=$T
demo --stage codec $S 2>&1 | tee $OUT/codec.log | cut -c1-330 || exit 1
slim $O/codec.state $OUT/codec_slim.pt
demo --stage decoder $S > $OUT/decoder.log 2>&1 &
demo --stage lm $S --seconds $(left 525) --workers ${W:-12} 2>&1 | tee $OUT/lm1.log | cut -c1-400
R=$?
wait; tail -3 $OUT/decoder.log | cut -c1-200; ls -la $O; echo "c1: lm rc $R (1 = to be gone on with), $(( $(date +%s) - B )) s"
