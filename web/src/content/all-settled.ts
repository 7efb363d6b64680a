/**
 * Waits until all promises are settled, and returns their values. If some were rejected, throws the error of the first of them in the
 * list, so that the error does not depend on which promise was rejected first.
 */
export async function allSettled<T extends readonly unknown[]>(
  promises: readonly [...T],
): Promise<{ -readonly [at in keyof T]: Awaited<T[at]> }> {
  const results = await Promise.allSettled(promises);
  const failed = results.find((result): result is PromiseRejectedResult => result.status === 'rejected');
  if (failed) throw failed.reason;
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as { -readonly [at in keyof T]: Awaited<T[at]> };
}
