/** The git changes of the session's directory: staged and unstaged files, each with its diff. */

import './changes.css';
import { Folder, GitBranch, RotateCw } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import type { ChangedFile } from '../content/git-output.ts';
import { escapeText } from '../content/escape-invisible.ts';
import {
  appendChanges,
  changeKey,
  type ChangesArea,
  fetchChanges,
  fetchDiff,
  fetchFolderChanges,
  fetchMoreChanges,
  type GitChanges,
} from '../state/workspace.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatCount } from '../ui/format.ts';
import { LineCounts } from '../ui/line-counts.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { Diff } from './diff.tsx';

/** The changes are fetched again whenever the agent starts or stops working. */
export function Changes({ session }: { session: Session }) {
  const { id, thinking } = session;
  const { value: first, error, isLoading, refetch } = useFetch(id, () => fetchChanges(id), thinking);
  const [value, append] = useAppended(first);
  // Only the last section has the button for more changes, because further changes may be staged or unstaged.
  const nextPage = value ? { more: value.more, load: async () => append(await fetchMoreChanges(id, value)) } : {};
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
          <Section title="Staged" id={id} changes={value} area="staged" {...(value.unstaged.length === 0 ? nextPage : {})} />
          <Section title="Unstaged" id={id} changes={value} area="unstaged" {...nextPage} />
        </>
      )}
    </div>
  );
}

/** Returns the first page of a list, or the longer list after further pages were appended; and a function that sets the longer list. */
function useAppended<T extends object>(firstPage: T | undefined): [T | undefined, (longerList: T) => void] {
  const [appended, setAppended] = useState<{ firstPage: T; list: T } | null>(null);
  return [
    appended !== null && appended.firstPage === firstPage ? appended.list : firstPage,
    (list) => firstPage && setAppended({ firstPage, list }),
  ];
}

const countFiles = (files: ChangedFile[]) => files.reduce((sum, { count = 1 }) => sum + count, 0);

interface SectionProps {
  title: string;
  id: string;
  changes: GitChanges;
  area: ChangesArea;
  more?: number;
  load?: () => Promise<void>;
}

function Section({ title, ...props }: SectionProps) {
  const { changes, area } = props;
  const files = changes[area];
  if (files.length === 0) return null;
  return (
    <section class="change-section">
      <h3>
        {title} <span class="chip">{formatCount(countFiles(files))}</span>
      </h3>
      <ChangeList {...props} files={files} folder="" />
    </section>
  );
}

interface ListProps {
  id: string;
  changes: GitChanges;
  area: ChangesArea;
  files: ChangedFile[];
  /** The path of the folder around the files, with a slash at its end. */
  folder: string;
  /** How many further files the CLI has, and a function that loads the next page of files. */
  more?: number;
  load?: () => Promise<void>;
}

/** How many rows are added at a time. A CLI may send any number of files, and a page with many thousand rows is slow. */
const ROWS_PER_STEP = 200;

function ChangeList({ files, more = 0, load, ...props }: ListProps) {
  const [maxRows, setMaxRows] = useState(ROWS_PER_STEP);
  const [isLoading, setLoading] = useState(false);
  const hiddenCount = Math.max(0, files.length - maxRows) + more;
  const showMore = async () => {
    if (load && more > 0 && files.length < maxRows + ROWS_PER_STEP) {
      setLoading(true);
      const isLoaded = await tryOrToast('Could not load more changes', load);
      setLoading(false);
      if (!isLoaded) return;
    }
    setMaxRows(maxRows + ROWS_PER_STEP);
  };
  return (
    <>
      {files.slice(0, maxRows).map((file) => {
        const Row = file.path.endsWith('/') ? FolderChange : FileChange;
        return <Row key={changeKey(file)} {...props} file={file} />;
      })}
      {hiddenCount > 0 && (
        <button type="button" class="button quiet" disabled={isLoading} onClick={() => void showMore()}>
          {isLoading ? 'Loading …' : `Show ${formatCount(Math.min(ROWS_PER_STEP, hiddenCount))} of ${formatCount(hiddenCount)} more`}
        </button>
      )}
    </>
  );
}

type RowProps = Omit<ListProps, 'files' | 'more' | 'load'> & { file: ChangedFile };

const STATUS_LETTERS = new Map(
  Object.entries({ modified: 'M', added: 'A', deleted: 'D', renamed: 'R', copied: 'C', untracked: 'U', conflicted: '!', typechange: 'T' }),
);

function StatusLetter({ status }: ChangedFile) {
  return (
    <span class="status" data-status={status} title={status} aria-label={status} role="img">
      {STATUS_LETTERS.get(status) ?? '?'}
    </span>
  );
}

function FileChange({ id, changes, area, file, folder }: RowProps) {
  const counts = changes.lineCounts[area].get(file.path);
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="change" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <StatusLetter {...file} />
        <span class="mono change-path">
          <EscapedText text={`${file.oldPath ? `${file.oldPath} → ` : ''}${file.path.slice(folder.length)}`} />
        </span>
        {counts && <LineCounts {...counts} />}
      </summary>
      {isOpen && <FileDiff id={id} changes={changes} area={area} path={file.path} />}
    </details>
  );
}

/** A folder with many changed files. The files are fetched when the user opens the folder. */
function FolderChange({ file, folder, ...props }: RowProps) {
  const [isOpen, setOpen] = useState(false);
  const onToggle = ({ currentTarget, target }: Event) => {
    // In some browsers, the event of a row inside this folder bubbles.
    if (target === currentTarget) setOpen((currentTarget as HTMLDetailsElement).open);
  };
  return (
    <details class="change folder" onToggle={onToggle}>
      <summary>
        <StatusLetter {...file} />
        <Folder size={16} aria-hidden />
        <span class="mono change-path">
          <EscapedText text={file.path.slice(folder.length)} />
        </span>
        <span class="chip">{file.count === undefined ? 'folder' : `${formatCount(file.count)} files`}</span>
      </summary>
      {isOpen && <FolderFiles {...props} file={file} />}
    </details>
  );
}

function FolderFiles({ file, ...props }: Omit<RowProps, 'folder'>) {
  const { id, changes } = props;
  const { value: first, error, refetch } = useFetch(`${id} ${file.status} ${file.path}`, () => fetchFolderChanges(id, file), changes);
  const [value, append] = useAppended(first);
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  if (!value) return <Skeleton label="Loading the folder" />;
  if (value.files.length === 0)
    return <p class="muted small change-note">The agent does not list the files of this folder. You find them under Files.</p>;
  const loadMore = async () => {
    const next = await fetchFolderChanges(id, file, value.loaded);
    append({ ...next, files: appendChanges(value.files, next.files) });
  };
  return (
    <div class="change-folder">
      <ChangeList {...props} files={value.files} folder={file.path} more={value.more} load={loadMore} />
    </div>
  );
}

interface DiffProps {
  id: string;
  changes: GitChanges;
  area: ChangesArea;
  path: string;
}

function FileDiff({ id, changes, area, path }: DiffProps) {
  // Fetches the diff again with each new list of changes.
  const { value, error, refetch } = useFetch(`${id} ${area} ${path}`, () => fetchDiff(id, path, area === 'staged'), changes);
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  return value === undefined ? <Skeleton label="Loading the diff" /> : <Diff patch={value} label={`Diff of ${escapeText(path)}`} />;
}
