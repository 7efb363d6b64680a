/** Fetches data for a view. */

import { useCallback, useEffect, useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';

export interface FetchState<T> {
  value: T | undefined;
  error: string | null;
  isLoading: boolean;
  /** Fetches again. The old value stays until the new value or an error arrives. */
  refetch: () => void;
}

/**
 * Fetches data for `key`, and again when `key` or `trigger` changes. After a change of `trigger`, the old value stays until the new
 * value or an error arrives. Responses for an old key are ignored.
 */
export function useFetch<T>(key: string, load: () => Promise<T>, trigger?: unknown): FetchState<T> {
  const [result, setResult] = useState<{ key: string; value?: T; error: string | null; isLoading: boolean }>({
    key,
    error: null,
    isLoading: true,
  });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    setResult((before) => (before.key === key ? { ...before, error: null, isLoading: true } : { key, error: null, isLoading: true }));
    load().then(
      (value) => isCurrent && setResult({ key, value, error: null, isLoading: false }),
      (error: unknown) => isCurrent && setResult({ key, error: errorText(error), isLoading: false }),
    );
    return () => {
      isCurrent = false;
    };
  }, [key, attempt, trigger]);
  const refetch = useCallback(() => setAttempt((before) => before + 1), []);
  const isStale = result.key !== key;
  return {
    value: isStale ? undefined : result.value,
    error: isStale ? null : result.error,
    isLoading: isStale || result.isLoading,
    refetch,
  };
}
