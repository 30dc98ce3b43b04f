"""Files wherever Spark can write them (this machine, HDFS, object stores), through Spark's own file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder:
    """A folder by its path. Names given to its methods are of things in it; "" is the folder itself."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self._jvm = cast(Any, spark._jvm)
        root: Any = self._jvm.org.apache.hadoop.fs.Path(self.path)
        self._files: Any = root.getFileSystem(spark._jsc.hadoopConfiguration())
        self._root = root

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def join(self, name: str) -> str:
        """The path of something in the folder, as Spark's writers take it."""
        return str(self._path(name).toString())

    def exists(self, name: str = "") -> bool:
        """Whether it is there."""
        return bool(self._files.exists(self._path(name)))

    def is_folder(self, name: str = "") -> bool:
        """Whether it is there, and a folder."""
        return self.exists(name) and bool(self._files.getFileStatus(self._path(name)).isDirectory())

    def names(self, name: str = "") -> list[str]:
        """What is in it, sorted; nothing if it is not there."""
        if not self.exists(name):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(self._path(name)))

    def delete(self, name: str = "") -> None:
        """Remove it with all that is in it; nothing happens if it is not there."""
        self._files.delete(self._path(name), True)

    def move(self, source: str, target: str) -> None:
        """Give something in the folder another name, in place of what had that name."""
        self.delete(target)
        self._files.mkdirs(self._path(target).getParent())
        if not self._files.rename(self._path(source), self._path(target)):
            raise OSError(f"cannot rename {self.join(source)} to {self.join(target)}")

    def read_text(self, name: str) -> str:
        """The text of a file."""
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole: a reader sees the old one or the new one, never a part."""
        part = f"_{name}.part"
        stream = self._files.create(self._path(part), True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()
        self.move(part, name)
