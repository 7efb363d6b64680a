/** Limits a rendering error to one part of the page. */

import type { ComponentChildren } from 'preact';
import { useErrorBoundary } from 'preact/hooks';
import { errorText } from '../api/errors.ts';
import { ErrorNotice } from './loading.tsx';

/** Shows its children, or their rendering error with a button to try again. */
export function ErrorBoundary({ children }: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary((failure) => console.error(failure));
  if (error === undefined) return <>{children}</>;
  return <ErrorNotice text={`This part could not be displayed: ${errorText(error)}`} onRetry={reset} />;
}
