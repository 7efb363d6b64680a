/** What has changed in the session's directory: files staged and not, each with its diff. */

import './changes.css';
import { GitBranch, RotateCw } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import { type ChangedFile, changesOf, diffOf, type Numbers } from '../state/workspace.ts';
import { Failure, Skeleton } from '../ui/pieces.tsx';
import { useRead } from '../ui/use-read.ts';
import { Diff } from './diff.tsx';

/** The changes. They are read anew when the agent has done something. */
export function Changes({ session }: { session: Session }) {
  const { id, thinking } = session;
  const { value, error, isReading, again } = useRead(`${id} ${thinking}`, () => changesOf(id));
  return (
    <div class="page changes">
      <div class="page-head">
        <h2 class="row">
          <GitBranch size={18} aria-hidden />
          <span class="mono ellipsis">{value?.branch ?? 'Changes'}</span>
        </h2>
        <button type="button" class="button" onClick={again} disabled={isReading}>
          <RotateCw size={16} aria-hidden /> Refresh
        </button>
      </div>
      {error && <Failure text={error} onRetry={again} />}
      {!value && !error && <Skeleton label="Reading the changes" />}
      {value && value.staged.length + value.unstaged.length === 0 && (
        <div class="empty">
          <h2>Nothing has changed</h2>
          <p>What the agent edits appears here.</p>
        </div>
      )}
      {value && (
        <>
          <Section title="Staged" id={id} files={value.staged} numbers={value.numbers.staged} staged />
          <Section title="Not staged" id={id} files={value.unstaged} numbers={value.numbers.unstaged} staged={false} />
        </>
      )}
    </div>
  );
}

interface SectionProps {
  title: string;
  id: string;
  files: ChangedFile[];
  numbers: Record<string, Numbers>;
  staged: boolean;
}

function Section({ title, id, files, numbers, staged }: SectionProps) {
  if (files.length === 0) return null;
  return (
    <section class="change-section">
      <h3>
        {title} <span class="chip">{files.length}</span>
      </h3>
      {files.map((file) => (
        <FileChange key={file.path} id={id} file={file} numbers={numbers[file.path]} staged={staged} />
      ))}
    </section>
  );
}

const LETTERS: Record<string, string> = { modified: 'M', added: 'A', deleted: 'D', renamed: 'R', copied: 'C', untracked: 'U', conflicted: '!', typechange: 'T' };

function FileChange({ id, file, numbers, staged }: { id: string; file: ChangedFile; numbers: Numbers | undefined; staged: boolean }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="change" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <span class="status" data-status={file.status} title={file.status} aria-label={file.status} role="img">
          {LETTERS[file.status] ?? '?'}
        </span>
        <span class="mono change-path">
          {file.oldPath && `${file.oldPath} → `}
          {file.path}
        </span>
        {numbers && (
          <span class="numbers">
            <span class="plus">+{numbers.added}</span> <span class="minus">−{numbers.removed}</span>
          </span>
        )}
      </summary>
      {isOpen && <FileDiff id={id} path={file.path} staged={staged} />}
    </details>
  );
}

function FileDiff({ id, path, staged }: { id: string; path: string; staged: boolean }) {
  const { value, error, again } = useRead(`${id} ${path} ${staged}`, () => diffOf(id, path, staged));
  if (error) return <Failure text={error} onRetry={again} />;
  return value === undefined ? <Skeleton label="Reading the diff" /> : <Diff patch={value} label={`Diff of ${path}`} />;
}
