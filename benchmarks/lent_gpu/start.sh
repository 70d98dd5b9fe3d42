# Unpacks what was carried and begins the training, which no command's end stops. About 30 s.
. .demo/common.sh
mkdir -p /tmp/tree $T $Q $D
date +%s > $Q/began
tar -C /tmp/tree -xf .demo/tree.tar.xz && tar -C $D -xf .demo/data.tar.xz || exit 9
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target /tmp/site .demo/whl/*.whl || exit 9
[ ! -e .demo/trained.tar.xz ] || tar -C $T -xf .demo/trained.tar.xz || exit 9
cp -r .demo /tmp/tree/
nvidia-smi -L; nproc; ls $T $D
setsid bash /tmp/tree/.demo/stages.sh > $Q/stages.log 2>&1 < /dev/null &
sleep 1
