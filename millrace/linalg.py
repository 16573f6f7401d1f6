"""`tf.linalg`: matrices."""

from millrace.ops.array.diag import (
    diag as tensor_diag,
)
from millrace.ops.array.diag import (
    diag_part as tensor_diag_part,
)
from millrace.ops.array.diag import (
    eye,
)
from millrace.ops.array.diag import (
    matrix_band_part as band_part,
)
from millrace.ops.array.diag import (
    matrix_diag as diag,
)
from millrace.ops.array.diag import (
    matrix_diag_part as diag_part,
)
from millrace.ops.array.diag import (
    matrix_set_diag as set_diag,
)
from millrace.ops.array.layout import (
    matrix_transpose,
)
from millrace.ops.array.layout import (
    matrix_transpose as transpose,
)
from millrace.ops.linalg.contraction import (
    einsum,
    tensordot,
)
from millrace.ops.linalg.linear_algebra import (
    cross,
    matmul,
    matvec,
    norm,
    trace,
)
from millrace.ops.linalg.matrix_factorization import (
    adjoint,
    cholesky,
    cholesky_solve,
    expm,
    logdet,
    lu,
    lu_solve,
    matrix_rank,
    normalize,
    pinv,
    qr,
    slogdet,
    svd,
)
from millrace.ops.linalg.matrix_factorization import (
    matrix_determinant as det,
)
from millrace.ops.linalg.matrix_factorization import (
    matrix_inverse as inv,
)
from millrace.ops.linalg.matrix_factorization import (
    matrix_solve as solve,
)
from millrace.ops.linalg.matrix_factorization import (
    matrix_solve_ls as lstsq,
)
from millrace.ops.linalg.matrix_factorization import (
    matrix_square_root as sqrtm,
)
from millrace.ops.linalg.matrix_factorization import (
    matrix_triangular_solve as triangular_solve,
)
from millrace.ops.linalg.matrix_factorization import (
    self_adjoint_eig as eigh,
)
from millrace.ops.linalg.matrix_factorization import (
    self_adjoint_eigvals as eigvalsh,
)
from millrace.ops.linalg.operators import (
    LinearOperator,
    LinearOperatorAdjoint,
    LinearOperatorBlockDiag,
    LinearOperatorComposition,
    LinearOperatorDiag,
    LinearOperatorFullMatrix,
    LinearOperatorHouseholder,
    LinearOperatorIdentity,
    LinearOperatorInversion,
    LinearOperatorKronecker,
    LinearOperatorLowerTriangular,
    LinearOperatorLowRankUpdate,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)
from millrace.ops.math.clip import (
    global_norm,
)
from millrace.ops.nn.normalization import (
    l2_normalize,
)

__all__ = [
    "LinearOperator",
    "LinearOperatorAdjoint",
    "LinearOperatorBlockDiag",
    "LinearOperatorComposition",
    "LinearOperatorDiag",
    "LinearOperatorFullMatrix",
    "LinearOperatorHouseholder",
    "LinearOperatorIdentity",
    "LinearOperatorInversion",
    "LinearOperatorKronecker",
    "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular",
    "LinearOperatorScaledIdentity",
    "LinearOperatorZeros",
    "adjoint",
    "band_part",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "diag",
    "diag_part",
    "eigh",
    "eigvalsh",
    "einsum",
    "expm",
    "eye",
    "global_norm",
    "inv",
    "l2_normalize",
    "logdet",
    "lstsq",
    "lu",
    "lu_solve",
    "matmul",
    "matrix_rank",
    "matrix_transpose",
    "matvec",
    "norm",
    "normalize",
    "pinv",
    "qr",
    "set_diag",
    "slogdet",
    "solve",
    "sqrtm",
    "svd",
    "tensor_diag",
    "tensor_diag_part",
    "tensordot",
    "trace",
    "transpose",
    "triangular_solve",
]
