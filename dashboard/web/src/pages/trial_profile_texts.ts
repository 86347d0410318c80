import { texts_of } from "../i18n/part";

export const p = texts_of({
  "timings": "Time of a batch",
  "rate": "Samples a second",
  "last": "Time of a batch in the last report: {time}",
  "dataloader_next": "next batch",
  "to_device": "to the device",
  "train_batch": "train_batch()",
  "step_lr_schedulers": "schedulers",
  "reduce_metrics": "metrics",
  "checkpoint": "batch {batches}, {size}",
  "off": "Where the time of a batch goes is measured with profiling: {enabled: true} in the configuration of a trial class.",
}, {
  "timings": "每批耗时",
  "rate": "每秒样本数",
  "last": "最近一次上报的每批耗时：{time}",
  "dataloader_next": "取下一批",
  "to_device": "传到设备",
  "train_batch": "train_batch()",
  "step_lr_schedulers": "学习率调度",
  "reduce_metrics": "汇总指标",
  "checkpoint": "第 {batches} 批，{size}",
  "off": "在试验类的配置中写 profiling: {enabled: true}，即可测量每批的耗时分布。",
});
