import { texts_of } from "../i18n/part";

export const a = texts_of({
  "architecture": "Neural architecture",
  "layers": "Layers",
  "input": "Input sizes, separated by commas",
  "output": "Output sizes, separated by commas",
  "operations": "Operations",
  "operation": "Operation",
  "operation.add": "Add operation",
  "parameter.add": "Add parameter",
}, {
  "architecture": "神经网络结构",
  "layers": "层数",
  "input": "输入尺寸，用逗号分隔",
  "output": "输出尺寸，用逗号分隔",
  "operations": "操作",
  "operation": "操作类型",
  "operation.add": "添加操作",
  "parameter.add": "添加参数",
});
