# The rest of the language model, and the export if that was all of it. Up to 595 s.
. .demo/common.sh; O=$T
demo --stage lm $S --seconds $(left 525) --workers ${W:-12} 2>&1 | tee $OUT/lm2.log | cut -c1-400
R=$?
[ $R = 0 ] && export_model
[ -d $O/model ] && mkdir -p $OUT/model && cp $O/model/* $OUT/model/
ls -la $O $OUT/model; echo "c2: lm rc $R (0 = done), $(( $(date +%s) - B )) s"
