# What is left of the language model (only if c2 said rc 1), export, measure. Up to 400 s.
. .demo/common.sh; O=$T
[ -d $O/model ] || demo --stage lm $S --seconds $(left 200) --workers ${W:-12} 2>&1 | tee $OUT/lm3.log | cut -c1-400
[ -d $O/model ] || export_model
mkdir -p $OUT/model && cp $O/model/* $OUT/model/
timeout $(left 380) python3 -m rtc_agent evaluate-demo --data $D --model $O/model --device cuda:0 --rows 150 --json > $OUT/evaluation.txt 2> $OUT/evaluation.log
grep '^|' $OUT/evaluation.txt; grep '^Alone' $OUT/evaluation.txt; ls -la $OUT $OUT/model; echo "c3: $(( $(date +%s) - B )) s"
