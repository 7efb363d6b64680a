/** The git changes of the session's directory: staged and unstaged files, each with its diff, and repositories with changes of their own. */

import './changes.css';
import { Folder, FolderGit2, GitBranch, RotateCw } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import { type ChangedFile, describeConflict } from '../content/git-output.ts';
import { escapeText } from '../content/escape-invisible.ts';
import {
  appendChanges,
  changeKey,
  type ChangesArea,
  fetchChanges,
  fetchDiff,
  fetchFolderChanges,
  fetchMoreChanges,
  fetchRepositoryChanges,
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
  const { value, error, isLoading, refetch } = useFetch(id, () => fetchChanges(id), thinking);
  return (
    <div class="page changes">
      <div class="page-head">
        <h2 class="row">
          <GitBranch size={18} />
          <span class="mono ellipsis">
            <EscapedText text={value?.branch ?? 'Changes'} />
          </span>
        </h2>
        <button type="button" class="button" onClick={refetch} disabled={isLoading}>
          <RotateCw size={16} /> Refresh
        </button>
      </div>
      {error && <ErrorNotice text={error} onRetry={refetch} />}
      {!value && !error && <Skeleton label="Loading the changes" />}
      {value && <Sections id={id} changes={value} emptyText="Files that the agent edits appear here." />}
    </div>
  );
}

const SECTIONS = [
  { area: 'repositories', title: 'Repositories' },
  { area: 'staged', title: 'Staged' },
  { area: 'unstaged', title: 'Unstaged' },
] as const;

/** The changes of one repository. `emptyText`: what else to say if there are none. */
function Sections({ id, changes: first, emptyText }: { id: string; changes: GitChanges; emptyText?: string }) {
  const [changes = first, append] = useAppended(first);
  const filled = SECTIONS.filter(({ area }) => changes[area].length > 0);
  if (filled.length === 0) {
    return (
      <div class="empty">
        <h2>No changes</h2>
        {emptyText && <p>{emptyText}</p>}
      </div>
    );
  }
  // Only the last section has the button for more changes, because further changes may be of any section.
  const nextPage = { more: changes.more, load: async () => append(await fetchMoreChanges(id, changes)) };
  return (
    <>
      {filled.map(({ area, title }, index) => (
        <section key={area} class="change-section">
          <h3>
            {title} <span class="chip">{formatCount(countFiles(changes[area], area))}</span>
          </h3>
          <ChangeList
            id={id}
            changes={changes}
            area={area}
            files={changes[area]}
            folder={changes.folder}
            {...(index === filled.length - 1 ? nextPage : {})}
          />
        </section>
      ))}
    </>
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

type SectionArea = (typeof SECTIONS)[number]['area'];

const countFiles = (files: ChangedFile[], area: SectionArea) =>
  area === 'repositories' ? files.length : files.reduce((sum, { count = 1 }) => sum + count, 0);

interface ListProps {
  id: string;
  changes: GitChanges;
  area: SectionArea;
  files: ChangedFile[];
  /** The path of the folder around the files, with a slash at its end. */
  folder: string;
  /** How many further files the CLI has, and a function that loads the next page of files. */
  more?: number;
  load?: () => Promise<void>;
}

/** How many rows are added at a time. A CLI may send any number of files, and a page with many thousand rows is slow. */
const ROWS_PER_STEP = 200;

function ChangeList({ files, area, more = 0, load, ...props }: ListProps) {
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
        const Row = area === 'repositories' ? RepositoryChange : file.path.endsWith('/') ? FolderChange : FileChange;
        return <Row key={changeKey(file)} {...props} area={area === 'staged' ? area : 'unstaged'} file={file} />;
      })}
      {hiddenCount > 0 && (
        <button type="button" class="button quiet" disabled={isLoading} onClick={() => void showMore()}>
          {isLoading ? 'Loading …' : `Show ${formatCount(Math.min(ROWS_PER_STEP, hiddenCount))} of ${formatCount(hiddenCount)} more`}
        </button>
      )}
    </>
  );
}

type RowProps = Pick<ListProps, 'id' | 'changes' | 'folder'> & { area: ChangesArea; file: ChangedFile };

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

/** Returns whether a row is open, and its handler. */
function useToggle(): [isOpen: boolean, onToggle: (event: Event) => void] {
  const [isOpen, setOpen] = useState(false);
  const onToggle = ({ currentTarget, target }: Event) => {
    // In some browsers, the event of a row inside bubbles.
    if (target === currentTarget) setOpen((currentTarget as HTMLDetailsElement).open);
  };
  return [isOpen, onToggle];
}

function FileChange({ id, changes, area, file, folder }: RowProps) {
  const counts = changes.lineCounts[area].get(file.path);
  const conflict = describeConflict(file);
  const [isOpen, onToggle] = useToggle();
  return (
    <details class="change" onToggle={onToggle}>
      <summary>
        <StatusLetter {...file} />
        <span class="mono change-path">
          <EscapedText text={`${file.oldPath ? `${file.oldPath} → ` : ''}${file.path.slice(folder.length)}`} />
        </span>
        {file.status === 'conflicted' && <span class="chip">{['conflicted', conflict].filter(Boolean).join(', ')}</span>}
        {counts && <LineCounts {...counts} />}
      </summary>
      {isOpen && (
        <FileDiff id={id} changes={changes} area={area} path={file.path} emptyText={conflict && `No lines to compare: ${conflict}.`} />
      )}
    </details>
  );
}

/** A repository below the folder. Its changes are fetched when the user opens it. */
function RepositoryChange({ file, folder, id, changes }: RowProps) {
  const [isOpen, onToggle] = useToggle();
  return (
    <details class="change folder" onToggle={onToggle}>
      <summary>
        <FolderGit2 size={16} aria-label="Repository" role="img" />
        <span class="mono change-path">
          <EscapedText text={file.path.slice(folder.length)} />
        </span>
        {file.branch !== undefined && (
          <span class="mono muted ellipsis">
            <EscapedText text={file.branch} />
          </span>
        )}
        <span class="chip">{file.count === undefined ? 'repository' : countedFiles(file.count)}</span>
      </summary>
      {isOpen && <RepositoryFiles id={id} path={file.path} around={changes} />}
    </details>
  );
}

const countedFiles = (count: number) => (count === 0 ? 'no changes' : count === 1 ? '1 file' : `${formatCount(count)} files`);

function RepositoryFiles({ id, path, around }: { id: string; path: string; around: GitChanges }) {
  const { value, error, refetch } = useFetch(`${id} ${path}`, () => fetchRepositoryChanges(id, path, around), around);
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  if (!value) return <Skeleton label="Loading the changes" />;
  return (
    <div class="change-folder">
      <Sections id={id} changes={value} />
    </div>
  );
}

/** A folder with many changed files. The files are fetched when the user opens the folder. */
function FolderChange({ file, folder, ...props }: RowProps) {
  const [isOpen, onToggle] = useToggle();
  return (
    <details class="change folder" onToggle={onToggle}>
      <summary>
        <StatusLetter {...file} />
        <Folder size={16} />
        <span class="mono change-path">
          <EscapedText text={file.path.slice(folder.length)} />
        </span>
        <span class="chip">{file.count === undefined ? 'folder' : countedFiles(file.count)}</span>
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
  /** In place of an empty diff. */
  emptyText: string | null;
}

function FileDiff({ id, changes, area, path, emptyText }: DiffProps) {
  // Fetches the diff again with each new list of changes.
  const { value, error, refetch } = useFetch(`${id} ${area} ${path}`, () => fetchDiff(id, path, area === 'staged'), changes);
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  if (value === '' && emptyText !== null) return <p class="muted small diff-empty">{emptyText}</p>;
  return value === undefined ? <Skeleton label="Loading the diff" /> : <Diff patch={value} label={`Diff of ${escapeText(path)}`} />;
}
