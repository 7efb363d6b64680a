/** What has changed in the session's directory: files staged and not, each with its diff. */

import './changes.css';
import { GitBranch, RotateCw } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import { type ChangedFile, type Changes as AllChanges, changesOf, diffOf } from '../state/workspace.ts';
import { Failure, Skeleton } from '../ui/pieces.tsx';
import { useRead } from '../ui/use-read.ts';
import { Diff } from './diff.tsx';

/** The changes. They are read anew when the agent has done something. */
export function Changes({ session }: { session: Session }) {
  const { id, thinking } = session;
  const { value, error, isReading, again } = useRead(id, () => changesOf(id), thinking);
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
          <Section title="Staged" id={id} all={value} part="staged" />
          <Section title="Not staged" id={id} all={value} part="unstaged" />
        </>
      )}
    </div>
  );
}

interface SectionProps {
  title: string;
  id: string;
  all: AllChanges;
  part: 'staged' | 'unstaged';
}

function Section({ title, id, all, part }: SectionProps) {
  const files = all[part];
  if (files.length === 0) return null;
  return (
    <section class="change-section">
      <h3>
        {title} <span class="chip">{files.length}</span>
      </h3>
      {files.map((file) => (
        <FileChange key={file.path} id={id} all={all} part={part} file={file} />
      ))}
    </section>
  );
}

const LETTERS = new Map(Object.entries({ modified: 'M', added: 'A', deleted: 'D', renamed: 'R', copied: 'C', untracked: 'U', conflicted: '!', typechange: 'T' }));

function FileChange({ id, all, part, file }: Omit<SectionProps, 'title'> & { file: ChangedFile }) {
  const numbers = all.numbers[part].get(file.path);
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="change" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <span class="status" data-status={file.status} title={file.status} aria-label={file.status} role="img">
          {LETTERS.get(file.status) ?? '?'}
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
      {isOpen && <FileDiff id={id} all={all} part={part} path={file.path} />}
    </details>
  );
}

function FileDiff({ id, all, part, path }: Omit<SectionProps, 'title'> & { path: string }) {
  // It may have changed whenever the list was read again.
  const { value, error, again } = useRead(`${id} ${part} ${path}`, () => diffOf(id, path, part === 'staged'), all);
  if (error) return <Failure text={error} onRetry={again} />;
  return value === undefined ? <Skeleton label="Reading the diff" /> : <Diff patch={value} label={`Diff of ${path}`} />;
}
