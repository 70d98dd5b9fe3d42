"""The codec's encoder on a device: one frame of every row to eight codes, in static buffers."""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_agent.model.cuda.arena import Arena, LayerInput
from rtc_agent.model.cuda.codec_transformer import POSITIONS, CodecTransformer
from rtc_agent.model.cuda.launch import Launch, ceil_div, next_power_of_two
from rtc_agent.model.cuda.product import Patches, Product, Replicate
from rtc_agent.model.cuda.row_linear import FEW_ROWS
from rtc_agent.model.kernels.quantizer import nearest_few_kernel, nearest_kernel, settle_kernel
from rtc_agent.model.mimi_weights import ConvWeights, MimiWeights
from rtc_agent.model.spec import CODEBOOKS, MimiSpec


def conv_matrix(weight: Tensor) -> Tensor:
    """A convolution's [out, in, kernel] as the matrix over its patches, [out, kernel · in].

    The weight itself becomes a view of it, so that its numbers are held once, however many models
    are made of them.
    """
    patches = weight.transpose(1, 2)
    if not patches.is_contiguous():
        patches = patches.contiguous()
        weight.set_(patches.transpose(1, 2))
    return patches.flatten(1)


class EncoderGraph:
    """Buffers and launches of the encoder. Same arithmetic as `MimiEncoder`, other memory."""

    def __init__(self, spec: MimiSpec, weights: MimiWeights, rows: int) -> None:
        self.rows = rows
        device = weights.device
        f32 = {"dtype": torch.float32, "device": device}
        samples = spec.frame_samples
        strides = tuple(reversed(spec.ratios))
        shapes = [LayerInput(spec.kernel_size - 1, samples, 1)]
        channels, length = spec.n_filters, samples
        for stride in strides:
            shapes.append(LayerInput(spec.residual_kernel_size - 1, length, channels))
            shapes.append(LayerInput(stride, length, channels))
            length //= stride
            channels *= 2
        shapes.append(LayerInput(spec.last_kernel_size - 1, length, channels))
        shapes.append(LayerInput(POSITIONS, POSITIONS, spec.dimension))
        self.state = arena = Arena(shapes, rows, device)
        self.pcm = arena.new(0)[:, :, 0]
        """[rows, 1920]: the caller's frames go here."""

        self._convs: list[Product] = []
        channels, length = spec.n_filters, samples
        skip = torch.empty((rows, length, channels), **f32)
        self._conv(0, length, 1, weights.encoder_first, raw=skip, activated=arena.new(1))
        for i, ((residual, down), stride) in enumerate(
            zip(weights.encoder_blocks, strides, strict=True)
        ):
            at = 1 + 2 * i
            inner = torch.empty((rows, length, residual.conv.weight.shape[0]), **f32)
            self._conv(at, length, 1, residual.conv, activated=inner)
            self._convs.append(
                Product(
                    Patches(inner, length, inner.shape[2], inner.shape[2]),
                    conv_matrix(residual.pointwise.weight),
                    residual.pointwise.bias,
                    skip=skip,
                    activated=arena.new(at + 1),
                )
            )
            length //= stride
            channels *= 2
            skip = torch.empty((rows, length, channels), **f32)
            final = i + 1 == len(strides)
            self._conv(
                at + 1,
                length,
                stride,
                down,
                raw=None if final else skip,
                activated=arena.new(at + 2),
            )
        x = torch.empty((rows, POSITIONS, spec.dimension), **f32)
        at = 1 + 2 * len(strides)
        self._conv(at, length, 1, weights.encoder_last, raw=x)
        self._transformer = CodecTransformer(
            spec, weights.encoder_layers, arena, x, arena.new(at + 1)
        )

        q = spec.quantizer_dimension
        self._latent = torch.empty((rows, 2, q), **f32)
        # Downsampling and both projections are linear with nothing between: one matrix.
        project = torch.cat((weights.semantic.input_proj, weights.acoustic.input_proj))
        down_matrix = conv_matrix(weights.downsample)
        self._project = Product(
            Patches(arena.inputs[at + 1], 1, 0, 2 * POSITIONS * spec.dimension),
            (project.double() @ down_matrix.double()).float().contiguous(),
            raw=self._latent,
            replicate=Replicate(arena.position, POSITIONS * spec.dimension, spec.dimension),
        )
        self._books = torch.cat((weights.semantic.codebooks, weights.acoustic.codebooks))
        self._norms = (self._books.square().sum(-1) / 2).contiguous()
        self._slice = 32
        tiles = ceil_div(spec.bins, self._slice)
        self._score = torch.empty((CODEBOOKS, tiles, rows), **f32)
        self._index = torch.empty((CODEBOOKS, tiles, rows), dtype=torch.int32, device=device)
        self._residual = torch.empty((CODEBOOKS, rows, q), **f32)
        self.codes = torch.zeros((rows, CODEBOOKS), dtype=torch.int64, device=device)
        """[rows, 8]: what the frame was encoded to."""
        self.finite = torch.zeros(rows, dtype=torch.int32, device=device)
        """[rows]: 1 where the latent was finite."""

    def _conv(
        self,
        layer: int,
        outputs: int,
        stride: int,
        conv: ConvWeights,
        *,
        raw: Tensor | None = None,
        activated: Tensor | None = None,
    ) -> None:
        source = self.state.inputs[layer]
        channels = source.shape[2]
        matrix = conv_matrix(conv.weight)
        patches = Patches(source, outputs, stride * channels, matrix.shape[1])
        self._convs.append(Product(patches, matrix, conv.bias, raw=raw, activated=activated))

    def launch(self, live: Tensor, how: Launch) -> None:
        """Encode the frames in `pcm` into `codes`; rows not live [rows] bool keep their state."""
        for conv in self._convs:
            conv.launch(how)
        self._transformer.launch(how)
        self._project.launch(how)
        self._quantize(how)
        self.state.commit(live, how)

    def _quantize(self, how: Launch) -> None:
        _, bins, d = self._books.shape
        tiles = self._score.shape[1]
        block = 16

        def search(source: Tensor, stride: int, first: int, halves: int, settle: bool) -> None:
            before = first - 1
            arguments = (
                source,
                self._residual[first],
                self._books[first],
                self._norms[first],
                self._books[before],
                self._score[before],
                self._index[before],
                self._score[first],
                self._index[first],
                self.codes[:, before],
                self.rows,
                stride,
                bins,
            )
            sizes = {
                "CODES": CODEBOOKS,
                "TILES": tiles,
                "D": d,
                "DP": max(16, next_power_of_two(d)),
            }
            if self.rows <= FEW_ROWS:
                nearest_few_kernel[(tiles, self.rows, halves)](
                    *arguments, SETTLE=settle, BN=self._slice, **sizes, **how.options(4)
                )
                return
            nearest_kernel[(tiles, ceil_div(self.rows, block), halves)](
                *arguments,
                SETTLE=settle,
                BM=block,
                BN=self._slice,
                PRECISION=how.precision,
                **sizes,
                **how.options(8),
            )

        search(self._latent, 2 * d, 0, 2, False)
        for code in range(2, CODEBOOKS):
            source = self._latent[:, 1] if code == 2 else self._residual[code - 1]
            search(source, 2 * d if code == 2 else d, code, 1, True)
        settle_kernel[(self.rows,)](
            self._latent,
            self._score[0],
            self._index[0],
            self._score[CODEBOOKS - 1],
            self._index[CODEBOOKS - 1],
            self.codes,
            self.finite,
            self.rows,
            CODES=CODEBOOKS,
            TILES=tiles,
            D2=2 * d,
            DP=next_power_of_two(2 * d),
            **how.options(4),
        )
