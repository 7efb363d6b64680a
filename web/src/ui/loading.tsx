/** Placeholders for data that is loading or could not be loaded. */

import { RotateCw } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import type { LoadState } from '../api/load-state.ts';
import { ErrorText } from './error-text.tsx';

/** Grey lines in place of loading content. */
export function Skeleton({ lines = 4, label }: { lines?: number; label: string }) {
  const widths = ['78%', '52%', '66%', '40%', '72%', '58%'];
  return (
    <div class="stack" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} class="skeleton" style={{ width: widths[index % widths.length] }} />
      ))}
    </div>
  );
}

interface ErrorNoticeProps {
  /** Null if there is no error. */
  text: string | null;
  /** Without this, the notice has no button. */
  onRetry?: () => void;
  /** Shown after the message. */
  children?: ComponentChildren;
}

/** An error, with a button to try again. */
export function ErrorNotice({ text, onRetry, children }: ErrorNoticeProps) {
  return (
    text && (
      <div class="notice danger" role="alert">
        <span>
          <ErrorText text={text}>{children}</ErrorText>
        </span>
        {onRetry && (
          <button type="button" class="button" onClick={onRetry}>
            <RotateCw size={16} /> Try again
          </button>
        )}
      </div>
    )
  );
}

/** Shows its children once a resource is loaded. Before that, shows a skeleton or the error. */
export function LoadGate({
  loadState,
  label,
  onRetry,
  children,
}: {
  loadState: LoadState;
  label: string;
  onRetry: () => void;
  children: ComponentChildren;
}) {
  if (loadState.status === 'failed') return <ErrorNotice text={loadState.error} onRetry={onRetry} />;
  if (loadState.status !== 'ready') return <Skeleton label={label} lines={6} />;
  return <>{children}</>;
}
