#!/usr/bin/env bash
# Submit job.py with all that its executors need. The arguments are job.py's.
#
#   examples/cluster/submit.sh --events trades --queries rising.ensue --output matches
#
# MASTER  where it runs; unless it is set, a cluster of two executors, each a process of its own, on this machine
# PACK=1  pack an environment for the executors even if the master is this machine
# WORK    a folder for the package, the packed environment and the executors' files
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
MASTER=${MASTER:-local-cluster[2,1,1024]}
WORK=${WORK:-$root/results/cluster}
PYTHON=${PYTHON:-$root/.venv/bin/python}
mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)

# An environment with ensue and what it imports, all but pyspark, which every executor of Spark has. Its bin/python works
# wherever it is unpacked, as long as the machine has the same Python in the same place.
pack() {
  rm -rf "$WORK/environment" "$WORK/wheel"
  "$PYTHON" -m uv pip compile "$root/pyproject.toml" --constraint "$root/requirements.lock" --no-emit-package pyspark \
    --no-emit-package py4j --generate-hashes --quiet --no-header --no-annotate --output-file "$WORK/requirements.txt" >/dev/null
  "$PYTHON" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$WORK/wheel" "$root"
  "$PYTHON" -m venv "$WORK/environment"
  local install=("$WORK/environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps)
  "${install[@]}" --require-hashes -r "$WORK/requirements.txt"
  "${install[@]}" "$WORK"/wheel/ensue-*.whl
  tar -czf "$WORK/environment.tar.gz" -C "$WORK/environment" .
}

options=(--master "$MASTER")
export PYSPARK_DRIVER_PYTHON=$PYTHON
if [[ $MASTER == local* && -z ${PACK:-} ]]; then
  export PYSPARK_PYTHON=$PYTHON
else
  [[ -f $WORK/environment.tar.gz ]] || pack
  export PYSPARK_PYTHON=./environment/bin/python
  options+=(--archives "$WORK/environment.tar.gz#environment")
fi

# The Java that ensue finds, and the Spark that the package pyspark brings unless there is another.
JAVA_HOME=$("$PYTHON" -c 'from ensue.spark.java import find_java; print(find_java().home)')
SPARK_HOME=${SPARK_HOME:-$("$PYTHON" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')}
if [[ $MASTER == local-cluster* ]]; then
  # A cluster on this machine keeps its executors' files in Spark's own folder: give it one made of links.
  mkdir -p "$WORK/spark"
  for part in "$SPARK_HOME"/{bin,jars,python}; do ln -sfn "$part" "$WORK/spark/"; done
  SPARK_HOME=$WORK/spark
  options+=(--conf spark.executor.memory=1g --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2)
fi
export JAVA_HOME SPARK_HOME

exec "$SPARK_HOME/bin/spark-submit" "${options[@]}" "$here/job.py" "$@"
