/** The git changes of the session's directory: staged and unstaged files, each with its diff. */

import './changes.css';
import { GitBranch, RotateCw } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import type { ChangedFile } from '../content/git-output.ts';
import { escapeText } from '../content/escape-invisible.ts';
import { fetchChanges, fetchDiff, type GitChanges } from '../state/workspace.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { LineCounts } from '../ui/line-counts.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { Diff } from './diff.tsx';

/** The changes are fetched again whenever the agent starts or stops working. */
export function Changes({ session }: { session: Session }) {
  const { id, thinking } = session;
  const { value, error, isLoading, refetch } = useFetch(id, () => fetchChanges(id), thinking);
  return (
    <div class="page changes">
      <div class="page-head">
        <h2 class="row">
          <GitBranch size={18} aria-hidden />
          <span class="mono ellipsis">
            <EscapedText text={value?.branch ?? 'Changes'} />
          </span>
        </h2>
        <button type="button" class="button" onClick={refetch} disabled={isLoading}>
          <RotateCw size={16} aria-hidden /> Refresh
        </button>
      </div>
      {error && <ErrorNotice text={error} onRetry={refetch} />}
      {!value && !error && <Skeleton label="Loading the changes" />}
      {value && value.staged.length + value.unstaged.length === 0 && (
        <div class="empty">
          <h2>No changes</h2>
          <p>Files that the agent edits appear here.</p>
        </div>
      )}
      {value && (
        <>
          <Section title="Staged" id={id} changes={value} area="staged" />
          <Section title="Unstaged" id={id} changes={value} area="unstaged" />
        </>
      )}
    </div>
  );
}

interface SectionProps {
  title: string;
  id: string;
  changes: GitChanges;
  area: 'staged' | 'unstaged';
}

function Section({ title, id, changes, area }: SectionProps) {
  const files = changes[area];
  if (files.length === 0) return null;
  return (
    <section class="change-section">
      <h3>
        {title} <span class="chip">{files.length}</span>
      </h3>
      {files.map((file) => (
        <FileChange key={file.path} id={id} changes={changes} area={area} file={file} />
      ))}
    </section>
  );
}

const STATUS_LETTERS = new Map(Object.entries({ modified: 'M', added: 'A', deleted: 'D', renamed: 'R', copied: 'C', untracked: 'U', conflicted: '!', typechange: 'T' }));

function FileChange({ id, changes, area, file }: Omit<SectionProps, 'title'> & { file: ChangedFile }) {
  const counts = changes.lineCounts[area].get(file.path);
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="change" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <span class="status" data-status={file.status} title={file.status} aria-label={file.status} role="img">
          {STATUS_LETTERS.get(file.status) ?? '?'}
        </span>
        <span class="mono change-path">
          <EscapedText text={file.oldPath ? `${file.oldPath} → ${file.path}` : file.path} />
        </span>
        {counts && <LineCounts {...counts} />}
      </summary>
      {isOpen && <FileDiff id={id} changes={changes} area={area} path={file.path} />}
    </details>
  );
}

function FileDiff({ id, changes, area, path }: Omit<SectionProps, 'title'> & { path: string }) {
  // Fetches the diff again with each new list of changes.
  const { value, error, refetch } = useFetch(`${id} ${area} ${path}`, () => fetchDiff(id, path, area === 'staged'), changes);
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  return value === undefined ? <Skeleton label="Loading the diff" /> : <Diff patch={value} label={`Diff of ${escapeText(path)}`} />;
}
