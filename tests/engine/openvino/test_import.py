def test_x(openvino_base):
    print(openvino_base, list(openvino_base.iterdir()))
