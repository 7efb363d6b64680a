/** Toasts: short messages in the corner of the page. */

import { signal } from '@preact/signals';
import { X } from 'lucide-preact';
import { useLayoutEffect } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import { errorText } from '../api/errors.ts';
import { ErrorText } from './error-text.tsx';

const TOAST_MS = 8000;
const ERROR_TOAST_MS = 20_000;

interface Toast {
  id: number;
  title: string;
  text: string;
  /** The target of the toast's button. */
  url?: string;
  isError?: boolean;
}

const toasts = signal<Toast[]>([]);
let lastId = 0;

export function showToast(message: Omit<Toast, 'id'>): void {
  lastId += 1;
  const id = lastId;
  toasts.value = [...toasts.value.slice(-3), { ...message, id }];
  setTimeout(() => dismiss(id), message.isError ? ERROR_TOAST_MS : TOAST_MS);
}

export function showError(title: string, error: unknown): void {
  showToast({ title, text: errorText(error), isError: true });
}

/** Runs an operation, and shows its error as a toast. Returns whether the operation succeeded. */
export async function tryOrToast(title: string, operation: () => Promise<unknown>): Promise<boolean> {
  try {
    await operation();
    return true;
  } catch (error) {
    showError(title, error);
    return false;
  }
}

/** Opens the page of a session that is ready. If the user has meanwhile left the view that asked for it, a toast offers the page instead. */
export function openOrOffer(isHere: boolean, navigate: (url: string) => void, message: { title: string; text: string; url: string }): void {
  if (isHere) navigate(message.url);
  else showToast(message);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Renders all toasts. */
export function Toasts() {
  const [location, navigate] = useLocation();
  // A toast must not cover the view that it is about.
  const shown = toasts.value.filter(({ url }) => url === undefined || !`${location}/`.startsWith(`${url}/`));
  const isOutdated = shown.length < toasts.value.length;
  useLayoutEffect(() => {
    if (isOutdated) toasts.value = shown;
  });
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map(({ id, title, text, url, isError }) =>
        url !== undefined && location === '/inbox' ? (
          // The inbox shows what the notification is about.
          <p key={id} class="visually-hidden">
            {title}
          </p>
        ) : (
          <div key={id} class={isError ? 'toast error' : 'toast'}>
            <div>
              <strong>{title}</strong>
              <p class="small">
                <ErrorText text={text} />
              </p>
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
              <X size={18} />
            </button>
          </div>
        ),
      )}
    </div>
  );
}
