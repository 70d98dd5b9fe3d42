# Dry run of every stage on the GPU, sizes as in earnest: what fails, fails here. About 110 s.
. .demo/common.sh; O=/tmp/dry; rm -rf $O
nvidia-smi --query-gpu=name,memory.total --format=csv,noheader; nproc; free -g | head -2; df -h /tmp | tail -1
python3 -c "import torch, scipy, numpy, sentencepiece, typer; print(torch.__version__, typer.__version__, typer.__file__)"
timeout 190 python3 -m rtc_agent train-demo --data $D --out $O --device cuda:0 --seconds-codec 8 --seconds-decoder 4 --seconds-lm 30 --workers 12 2>&1 | tee $OUT/dry.log | cut -c1-400
R=$?
timeout 60 python3 -m rtc_agent evaluate-demo --data $D --model $O/model --device cuda:0 --sets eSpeak --most 4 2>&1 | tail -4
ls -la $O $O/model; nvidia-smi --query-gpu=memory.used --format=csv,noheader; echo "dry run: rc $R, $(( $(date +%s) - B )) s"
exit $R
