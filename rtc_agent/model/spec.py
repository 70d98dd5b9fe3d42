"""What a model is: dimensions, vocabularies, delays, and the habits of its family's reference.

A family (PersonaPlex, Moshi) is a row of numbers here, never a branch in the tick. Sizes in the
constants are those of the released seven-billion checkpoints, whose `config.json` carries none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.errors import CheckpointError
from rtc_agent.model.config_values import number, table, whole, wholes

CODEBOOKS = 8
"""Codec codebooks a speaker; the codec's further ones are never computed."""
COLUMN_ROWS = 1 + 2 * CODEBOOKS
"""Rows of a token column: text, the agent's codebooks, the user's codebooks."""
TEXT_ROW = 0
AGENT_ROWS = slice(1, 1 + CODEBOOKS)
USER_ROWS = slice(1 + CODEBOOKS, COLUMN_ROWS)
POSITIONS = 2
"""Positions of the codec's transformers a frame: 25 Hz against 12.5 frames a second."""
DEPFORMER_STEPS = CODEBOOKS
"""Depformer steps that are run. Later ones predict the user's codes, which are always known."""
_MOST_LAYERS = 1024
"""Of anything that a checkpoint has keys for one by one."""
ZERO_TOKEN = -1
"""Embeds to the zero vector."""

DELAYS = (0, *(0, *(1,) * (CODEBOOKS - 1)), *(0, *(1,) * (CODEBOOKS - 1)))
"""Frames by which each row of the column lags its frame."""

SILENCE_CODES = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
"""The released codec's codes of digital silence."""
SINE_CODES = (430, 1268, 381, 1611, 1095, 1495, 56, 472)
"""The released codec's codes of a 440 Hz sine, the user's side of every prompt."""


@dataclass(frozen=True, slots=True)
class Family:
    """What sets one family's reference implementation apart from another's."""

    name: str
    ring_loss: int
    """Positions that a full attention ring of the reference no longer sees: temporal transformer,
    depformer and codec alike."""
    takes_prompts: bool
    """Whether a session may open with a voice and a persona."""
    depformer_steps: int
    """Steps of the released depformer."""
    reference_lag: int
    """Calls by which the reference returns a frame later than it could."""


PERSONAPLEX = Family(
    "personaplex", ring_loss=1, takes_prompts=True, depformer_steps=16, reference_lag=1
)
MOSHI = Family("moshi", ring_loss=0, takes_prompts=False, depformer_steps=8, reference_lag=0)
FAMILIES: Mapping[str, Family] = {f.name: f for f in (PERSONAPLEX, MOSHI)}


def gated_hidden(dim: int, feedforward: int) -> int:
    """Width of each half of a gated FFN, as Moshi's transformer derives it."""
    return 21 * dim // 8 if feedforward == 4 * dim else 2 * feedforward // 3


@dataclass(frozen=True, slots=True)
class LmSpec:
    """The language model: temporal transformer and depformer. Defaults: the released sizes."""

    dim: int = 4096
    num_layers: int = 32
    num_heads: int = 32
    feedforward: int = 16896
    """FFN width before gating, ⌊4.125 · dim⌋."""
    context: int = 3000
    """Positions of the reference's attention ring; see `window` for what it sees."""
    window: int = 2999
    """Positions a full ring attends to, the current one included."""
    depformer_dim: int = 1024
    depformer_num_layers: int = 6
    depformer_num_heads: int = 16
    depformer_feedforward: int = 4224
    depformer_checkpoint_steps: int = 16
    """Steps the model has; only the first eight are loaded and run."""
    depformer_window: int = 15
    """Steps a depformer step attends to at most, itself included."""
    text_card: int = 32000
    card: int = 2048
    max_period: float = 10000.0
    delays: tuple[int, ...] = DELAYS
    text_pad: int = 3
    text_epad: int = 0
    text_bos: int = 1
    text_eos: int = 2

    @property
    def head_dim(self) -> int:
        return self.dim // self.num_heads

    @property
    def hidden(self) -> int:
        """Width of each half of the temporal transformer's gated FFN."""
        return gated_hidden(self.dim, self.feedforward)

    @property
    def depformer_head_dim(self) -> int:
        return self.depformer_dim // self.depformer_num_heads

    @property
    def depformer_hidden(self) -> int:
        return gated_hidden(self.depformer_dim, self.depformer_feedforward)

    @property
    def text_sos(self) -> int:
        """Text start-of-stream id, one past the vocabulary."""
        return self.text_card

    @property
    def audio_sos(self) -> int:
        """Audio start-of-stream id, one past the codebook."""
        return self.card

    @property
    def unshown_text(self) -> tuple[int, ...]:
        """Text ids that are never shown."""
        return (self.text_epad, self.text_pad)

    @property
    def sos_column(self) -> tuple[int, ...]:
        """The column at position 0: start-of-stream in every row."""
        return (self.text_sos, *(self.audio_sos,) * (COLUMN_ROWS - 1))

    def shapes(self, depformer_steps: int | None = None) -> dict[str, tuple[int, ...]]:
        """Every key of a checkpoint (attention fused, as PersonaPlex stores it) and its shape.

        Args:
            depformer_steps: steps in the file when they are not `depformer_checkpoint_steps`.
        """
        steps = depformer_steps or self.depformer_checkpoint_steps
        d, e = self.dim, self.depformer_dim
        out: dict[str, tuple[int, ...]] = {
            "text_emb.weight": (self.text_card + 1, d),
            "text_linear.weight": (self.text_card, d),
            "out_norm.alpha": (1, 1, d),
            "depformer_text_emb.weight": (self.text_card + 1, e),
        }
        for k in range(COLUMN_ROWS - 1):
            out[f"emb.{k}.weight"] = (self.card + 1, d)
        for i in range(self.num_layers):
            layer = f"transformer.layers.{i}."
            out[layer + "self_attn.in_proj_weight"] = (3 * d, d)
            out[layer + "self_attn.out_proj.weight"] = (d, d)
            out[layer + "norm1.alpha"] = out[layer + "norm2.alpha"] = (1, 1, d)
            out[layer + "gating.linear_in.weight"] = (2 * self.hidden, d)
            out[layer + "gating.linear_out.weight"] = (d, self.hidden)
        for i in range(self.depformer_num_layers):
            layer = f"depformer.layers.{i}."
            out[layer + "self_attn.in_proj_weight"] = (steps * 3 * e, e)
            out[layer + "self_attn.out_proj.weight"] = (steps * e, e)
            out[layer + "norm1.alpha"] = out[layer + "norm2.alpha"] = (1, 1, e)
            for k in range(steps):
                out[layer + f"gating.{k}.linear_in.weight"] = (2 * self.depformer_hidden, e)
                out[layer + f"gating.{k}.linear_out.weight"] = (e, self.depformer_hidden)
        for k in range(steps):
            out[f"depformer_in.{k}.weight"] = (e, d)
            out[f"linears.{k}.weight"] = (self.card, e)
            if k:
                out[f"depformer_emb.{k - 1}.weight"] = (self.card + 1, e)
        return out


@dataclass(frozen=True, slots=True)
class MimiSpec:
    """The streaming codec. Defaults: the released sizes."""

    n_filters: int = 64
    ratios: tuple[int, ...] = (8, 6, 5, 4)
    """Upsampling of the decoder, in order; the encoder strides by the same numbers reversed."""
    kernel_size: int = 7
    residual_kernel_size: int = 3
    last_kernel_size: int = 3
    compress: int = 2
    dimension: int = 512
    transformer_layers: int = 8
    transformer_heads: int = 8
    transformer_ffn: int = 2048
    transformer_context: int = 250
    transformer_window: int = 249
    """Positions held by a full attention ring, once both positions of a frame are written."""
    max_period: float = 10000.0
    quantizer_dimension: int = 256
    bins: int = 2048
    n_q_total: int = 32
    """Codebooks in the file, the semantic one included; only `CODEBOOKS` are used."""

    @property
    def frame_samples(self) -> int:
        """Samples at 24 kHz of one frame."""
        samples = POSITIONS
        for ratio in self.ratios:
            samples *= ratio
        return samples

    @property
    def head_dim(self) -> int:
        return self.dimension // self.transformer_heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every key of a codec checkpoint and its shape."""
        out: dict[str, tuple[int, ...]] = {}
        self._encoder_shapes(out)
        self._decoder_shapes(out)
        for side in ("encoder", "decoder"):
            self._transformer_shapes(out, f"{side}_transformer.transformer.layers.")
        dim = self.dimension
        out["downsample.conv.conv.conv.weight"] = (dim, dim, 4)
        out["upsample.convtr.convtr.convtr.weight"] = (dim, 1, 4)
        self._quantizer_shapes(out, "quantizer.rvq_first.", 1)
        self._quantizer_shapes(out, "quantizer.rvq_rest.", self.n_q_total - 1)
        return out

    def _conv(self, out: dict[str, tuple[int, ...]], key: str, shape: tuple[int, ...]) -> None:
        out[f"{key}.weight"] = shape
        channels = shape[1] if "convtr" in key else shape[0]
        out[f"{key}.bias"] = (channels,)

    def _residual(self, out: dict[str, tuple[int, ...]], key: str, channels: int) -> None:
        inner = channels // self.compress
        self._conv(out, f"{key}.block.1.conv.conv", (inner, channels, self.residual_kernel_size))
        self._conv(out, f"{key}.block.3.conv.conv", (channels, inner, 1))

    def _encoder_shapes(self, out: dict[str, tuple[int, ...]]) -> None:
        channels = self.n_filters
        self._conv(out, "encoder.model.0.conv.conv", (channels, 1, self.kernel_size))
        index = 1
        for ratio in reversed(self.ratios):
            self._residual(out, f"encoder.model.{index}", channels)
            shape = (2 * channels, channels, 2 * ratio)
            self._conv(out, f"encoder.model.{index + 2}.conv.conv", shape)
            channels *= 2
            index += 3
        shape = (self.dimension, channels, self.last_kernel_size)
        self._conv(out, f"encoder.model.{index + 1}.conv.conv", shape)

    def _decoder_shapes(self, out: dict[str, tuple[int, ...]]) -> None:
        channels = self.n_filters * 2 ** len(self.ratios)
        shape: tuple[int, ...] = (channels, self.dimension, self.kernel_size)
        self._conv(out, "decoder.model.0.conv.conv", shape)
        index = 2
        for ratio in self.ratios:
            shape = (channels, channels // 2, 2 * ratio)
            self._conv(out, f"decoder.model.{index}.convtr.convtr", shape)
            channels //= 2
            self._residual(out, f"decoder.model.{index + 1}", channels)
            index += 3
        self._conv(out, f"decoder.model.{index}.conv.conv", (1, channels, self.last_kernel_size))

    def _transformer_shapes(self, out: dict[str, tuple[int, ...]], prefix: str) -> None:
        d, ffn = self.dimension, self.transformer_ffn
        for i in range(self.transformer_layers):
            layer = f"{prefix}{i}."
            out[layer + "self_attn.in_proj_weight"] = (3 * d, d)
            out[layer + "self_attn.out_proj.weight"] = (d, d)
            out[layer + "linear1.weight"] = (ffn, d)
            out[layer + "linear2.weight"] = (d, ffn)
            for n in (1, 2):
                out[layer + f"norm{n}.weight"] = out[layer + f"norm{n}.bias"] = (d,)
                out[layer + f"layer_scale_{n}.scale"] = (d,)

    def _quantizer_shapes(self, out: dict[str, tuple[int, ...]], prefix: str, layers: int) -> None:
        out[prefix + "input_proj.weight"] = (self.quantizer_dimension, self.dimension, 1)
        out[prefix + "output_proj.weight"] = (self.dimension, self.quantizer_dimension, 1)
        for i in range(layers):
            book = f"{prefix}vq.layers.{i}._codebook."
            out[book + "_initialized"] = (1,)
            out[book + "cluster_usage"] = (self.bins,)
            out[book + "embedding_sum"] = (self.bins, self.quantizer_dimension)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A whole model: family, language model, codec and the codes that belong to the checkpoint."""

    family: Family = PERSONAPLEX
    lm: LmSpec = field(default_factory=LmSpec)
    mimi: MimiSpec = field(default_factory=MimiSpec)
    silence_codes: tuple[int, ...] = SILENCE_CODES
    sine_codes: tuple[int, ...] = SINE_CODES

    @classmethod
    def released(cls, family: Family = PERSONAPLEX) -> ModelSpec:
        """The released checkpoints' sizes."""
        return cls.from_config({}, family=family)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, family: Family | None = None) -> ModelSpec:
        """Read a `config.json`; whatever it leaves out is as released.

        Takes the language model's and codec's settings under `lm` and `mimi` (or `codec`), or
        either's flat at the top.

        Args:
            family: whose checkpoint it is when the config does not say.

        Raises:
            CheckpointError: for a family, or a setting, that cannot be run here.
        """
        family = _family(config, family)
        sections = "lm" in config or "mimi" in config or "codec" in config
        lm = table(config, "lm") if sections else config
        mimi = (table(config, "mimi") or table(config, "codec")) if sections else config
        lm = {**lm, **{f"text_{k}": v for k, v in table(config, "text").items()}}
        lm_spec, mimi_spec = _lm_spec(lm, family), _mimi_spec(mimi, family)
        return cls(
            family=family,
            lm=lm_spec,
            mimi=mimi_spec,
            silence_codes=_codes(config, "silence_codes", SILENCE_CODES, mimi_spec.bins),
            sine_codes=_codes(config, "sine_codes", SINE_CODES, mimi_spec.bins),
        )


def _family(config: Mapping[str, Any], fallback: Family | None) -> Family:
    name = config.get("family", config.get("model_type"))
    known = name in FAMILIES if isinstance(name, str) else False
    if name is None or (not known and fallback is not None):
        return fallback or PERSONAPLEX
    if not known:
        there = ", ".join(sorted(FAMILIES))
        raise CheckpointError(f"config.json names the model family {name!r}; known are {there}")
    return FAMILIES[name]


def _codes(
    config: Mapping[str, Any], name: str, released: tuple[int, ...], bins: int
) -> tuple[int, ...]:
    if config.get(name) is None:
        return released
    codes = wholes(name, config[name], least=0)
    if len(codes) != CODEBOOKS or max(codes) >= bins:
        raise CheckpointError(
            f"config.json gives {name} as {list(codes)}; expected {CODEBOOKS} codes below {bins}"
        )
    return codes


def _require_heads(part: str, dim: int, heads: int) -> None:
    # Rotary embedding turns pairs.
    if dim % heads or dim // heads % 2:
        raise CheckpointError(
            f"config.json gives the {part} {heads} heads of {dim} dimensions; expected an even "
            "number of dimensions a head"
        )


def _size(name: str, value: object) -> int:
    if name in ("num_layers", "depformer_num_layers", "transformer_layers", "n_q_total"):
        return whole(name, value, most=_MOST_LAYERS)
    return whole(name, value)


def _lm_spec(config: Mapping[str, Any], family: Family) -> LmSpec:
    names = (
        "dim num_layers num_heads context depformer_dim depformer_num_layers depformer_num_heads "
        "text_card card"
    ).split()
    given: dict[str, Any] = {n: _size(n, config[n]) for n in names if config.get(n) is not None}
    ids = "text_pad text_epad text_bos text_eos".split()
    given |= {n: whole(n, config[n], least=0) for n in ids if config.get(n) is not None}
    if config.get("max_period") is not None:
        given["max_period"] = number("max_period", config["max_period"])
    spec = replace(LmSpec(), **given)
    scale = number("hidden_scale", config.get("hidden_scale", 4.125))
    steps = config.get("dep_q", family.depformer_steps)
    codebooks = config.get("n_q", 2 * CODEBOOKS)
    if codebooks != 2 * CODEBOOKS or steps not in (8, 16):
        raise CheckpointError(
            f"config.json asks for {codebooks} codebooks and {steps} depformer steps; "
            f"supported are {2 * CODEBOOKS} codebooks with 8 or 16 steps"
        )
    if config.get("delays") is not None and wholes("delays", config["delays"], 0) != DELAYS:
        raise CheckpointError(
            f"config.json has delays {config['delays']}; supported are {list(DELAYS)}"
        )
    if max(spec.text_pad, spec.text_epad, spec.text_bos, spec.text_eos) >= spec.text_card:
        raise CheckpointError(f"config.json has text ids beyond its {spec.text_card} pieces")
    _require_heads("temporal transformer", spec.dim, spec.num_heads)
    _require_heads("depformer", spec.depformer_dim, spec.depformer_num_heads)
    feedforward = config.get("depformer_dim_feedforward") or int(scale * spec.depformer_dim)
    # A model trained to see all its steps is run that way, whatever its family's ring would lose.
    loss = 0 if "depformer_context_trained" in config else family.ring_loss
    return replace(
        spec,
        feedforward=int(scale * spec.dim),
        depformer_feedforward=whole("depformer_dim_feedforward", feedforward),
        depformer_checkpoint_steps=steps,
        depformer_window=steps - loss,
        window=whole("context", spec.context, least=1 + family.ring_loss) - family.ring_loss,
    )


def _mimi_spec(config: Mapping[str, Any], family: Family) -> MimiSpec:
    transformer = table(config, "transformer")
    quantizer = table(config, "quantizer")
    given = {
        "transformer_layers": transformer.get("num_layers"),
        "transformer_heads": transformer.get("num_heads"),
        "transformer_ffn": transformer.get("dim_feedforward"),
        "transformer_context": transformer.get("context"),
        "quantizer_dimension": quantizer.get("dimension"),
        "bins": quantizer.get("bins"),
        "n_q_total": quantizer.get("n_q"),
    }
    if "n_filters" in config:
        names = (
            "n_filters kernel_size residual_kernel_size last_kernel_size compress dimension "
            "transformer_layers transformer_heads transformer_ffn transformer_context "
            "quantizer_dimension bins n_q_total"
        ).split()
        given |= {n: config[n] for n in names if n in config}
    sizes: dict[str, Any] = {k: _size(k, v) for k, v in given.items() if v is not None}
    if "n_filters" in config and config.get("ratios") is not None:
        sizes["ratios"] = wholes("ratios", config["ratios"])
    if transformer.get("max_period") is not None:
        sizes["max_period"] = number("max_period", transformer["max_period"])
    spec = replace(MimiSpec(), **sizes)
    if spec.frame_samples != FRAME_SAMPLES or spec.n_q_total < CODEBOOKS:
        raise CheckpointError(
            f"config.json has a codec of {spec.n_q_total} codebooks and {spec.frame_samples} "
            f"samples a frame; expected {CODEBOOKS} or more and {FRAME_SAMPLES}"
        )
    _require_heads("codec's transformer", spec.dimension, spec.transformer_heads)
    least = POSITIONS + family.ring_loss
    context = whole("the codec's context", spec.transformer_context, least)
    return replace(spec, transformer_window=context - family.ring_loss)
