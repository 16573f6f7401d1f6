"""What programs take from TensorFlow's python.platform.build_info that has no public name."""

is_cuda_build = False
is_rocm_build = False
cuda_version_number = ""
cudnn_version_number = ""
