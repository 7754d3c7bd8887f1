"""The package's writer, which here never writes a key twice."""

import gguf


class KeyWriter(gguf.GGUFWriter):
    """``add_*`` methods of the package; a second value of a key is an error, not an overwrite."""

    def add_key_value(self, key, val, vtype, sub_type=None):
        if any(key in data for data in self.kv_data):
            raise ValueError(f"the key {key} is written a second time, as {val!r}")
        super().add_key_value(key, val, vtype, sub_type)

    def _pack_val(self, val, vtype, add_vtype, sub_type=None):
        """As the package packs, but empty arrays too: a tokenizer of bytes has no merges, and
        llama.cpp insists on the key."""
        if vtype != gguf.GGUFValueType.ARRAY or len(val) > 0:
            return super()._pack_val(val, vtype, add_vtype, sub_type)
        kind = self._pack("I", vtype) if add_vtype else b""
        return kind + self._pack("I", sub_type) + self._pack("Q", 0)
