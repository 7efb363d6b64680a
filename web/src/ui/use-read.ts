/** Reading something for a view. */

import { useCallback, useEffect, useState } from 'preact/hooks';
import { sentence } from '../api/errors.ts';

/** What was read, or how far that has come. */
export interface Readable<T> {
  value: T | undefined;
  error: string | null;
  isReading: boolean;
  /** Reads it again; what was read before stays until then. */
  again: () => void;
}

/**
 * Reads something whenever `key` changes, and again when `occasion` does: what was read before stays until then. An answer
 * that comes after the next question is dropped.
 */
export function useRead<T>(key: string, read: () => Promise<T>, occasion?: unknown): Readable<T> {
  const [shown, setShown] = useState<{ key: string; value?: T; error: string | null; isReading: boolean }>({ key, error: null, isReading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    setShown((before) => (before.key === key ? { ...before, error: null, isReading: true } : { key, error: null, isReading: true }));
    read().then(
      (value) => isCurrent && setShown({ key, value, error: null, isReading: false }),
      (error: unknown) => isCurrent && setShown({ key, error: sentence(error), isReading: false }),
    );
    return () => {
      isCurrent = false;
    };
  }, [key, round, occasion]);
  const again = useCallback(() => setRound((before) => before + 1), []);
  const isOld = shown.key !== key;
  return { value: isOld ? undefined : shown.value, error: isOld ? null : shown.error, isReading: isOld || shown.isReading, again };
}
