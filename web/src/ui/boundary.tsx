/** Keeps what goes wrong in one part of the page from taking the rest with it. */

import type { ComponentChildren } from 'preact';
import { useErrorBoundary } from 'preact/hooks';
import { sentence } from '../api/errors.ts';
import { Failure } from './pieces.tsx';

/** Shows its children, or what went wrong in them, with another try. */
export function Boundary({ children }: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary((failure) => console.error(failure));
  if (error === undefined) return <>{children}</>;
  return <Failure text={`This cannot be shown: ${sentence(error)}`} onRetry={reset} />;
}
