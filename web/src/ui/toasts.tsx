/** Short messages in a corner. */

import { signal } from '@preact/signals';
import { X } from 'lucide-preact';
import { useLocation } from 'wouter-preact';
import { sentence } from '../api/errors.ts';

/** How long a message stays, in milliseconds. */
const SHOWN_MS = 8000;
/** The same of one that tells of an error, which nobody may be waiting for. */
const ERROR_SHOWN_MS = 20_000;

interface Shown {
  id: number;
  title: string;
  text: string;
  url?: string;
  isError?: boolean;
}

const shown = signal<Shown[]>([]);
let next = 0;

/** Shows a message; with a `url` it leads somewhere. */
export function toast(message: Omit<Shown, 'id'>): void {
  next += 1;
  const id = next;
  shown.value = [...shown.value.slice(-3), { ...message, id }];
  setTimeout(() => dismiss(id), message.isError ? ERROR_SHOWN_MS : SHOWN_MS);
}

/** Shows what went wrong. */
export function toastError(title: string, error: unknown): void {
  toast({ title, text: sentence(error), isError: true });
}

/** Does something, and shows what went wrong with it. */
export async function attempt(title: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    toastError(title, error);
    return false;
  }
}

function dismiss(id: number): void {
  shown.value = shown.value.filter((one) => one.id !== id);
}

/** The corner. */
export function Toasts() {
  const [, navigate] = useLocation();
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.value.map(({ id, title, text, url, isError }) => (
        <div key={id} class={isError ? 'toast error' : 'toast'}>
          <div>
            <strong>{title}</strong>
            <p class="small">{text}</p>
          </div>
          {url !== undefined && (
            <button
              type="button"
              class="button"
              onClick={() => {
                dismiss(id);
                navigate(url);
              }}
            >
              Open
            </button>
          )}
          <button type="button" class="button quiet icon" aria-label="Close" onClick={() => dismiss(id)}>
            <X size={18} aria-hidden />
          </button>
        </div>
      ))}
    </div>
  );
}
