// Statistics of measured times.

/** Returns the percentile of the samples, for `rank` from 0 to 1; NaN without samples. */
export function percentile(samples, rank) {
  if (samples.length === 0) return Number.NaN;
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.ceil(rank * sorted.length) - 1)];
}

export function median(values) {
  return percentile(values, 0.5);
}

/** Returns the median and the 99th percentile of latencies in milliseconds. */
export function latencyFigures(samples) {
  return { p50: percentile(samples, 0.5), p99: percentile(samples, 0.99) };
}
