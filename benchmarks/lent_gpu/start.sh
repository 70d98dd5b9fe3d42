# Unpacks what was carried and begins the training, which no command's end stops. About 30 s.
. .demo/common.sh
mkdir -p $ROOT/tree $T $Q $D
date +%s > $Q/began
tar -C $ROOT/tree -xf .demo/tree.tar.xz && tar -C $D -xf .demo/data.tar.xz || exit 9
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target $ROOT/site .demo/whl/*.whl || exit 9
if [ -e .demo/from ]; then
  python3 -m rtc_agent.training.from_model fill .demo/rest "$(cat .demo/from)" $T || exit 9
elif [ -e .demo/trained.tar.xz ]; then
  tar -C $T -xf .demo/trained.tar.xz || exit 9
fi
cp -r .demo $ROOT/tree/
nvidia-smi -L; echo "$CORES cores"; ls $T $D
setsid bash $ROOT/tree/.demo/stages.sh > $Q/stages.log 2>&1 < /dev/null &
sleep 1
