/** A sheet that browses the folders of a machine below the directories that the machine serves. */

import './directory-browser.css';
import { ChevronRight, Folder as FolderIcon, FolderGit2 } from 'lucide-preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Machine } from '../api/types.ts';
import { breadcrumbsOf } from '../content/breadcrumbs.ts';
import { escapeText } from '../content/escape-invisible.ts';
import { shortenPath } from '../content/paths.ts';
import { computerName, servedDirectories } from '../state/machine-info.ts';
import { fetchFolders, type Folder, type FolderList } from '../state/machine-directories.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatCount } from '../ui/format.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { SearchField } from '../ui/search.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { PinButton } from './pin-button.tsx';

/** A longer list has a field that filters it. */
const MAX_UNFILTERED = 12;

interface Props {
  machine: Machine;
  /** The directory to open first; empty for the served directories. */
  directory: string;
  onSelect: (directory: string) => void;
  onClose: () => void;
}

export function DirectoryBrowser({ machine, directory, onSelect, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const served = servedDirectories(machine);
  const [path, setPath] = useState<string | null>(directory || (served.length === 1 ? (served[0] ?? null) : null));
  const { value, error, refetch } = useFetch(`${machine.id}\0${path ?? ''}`, () => fetchFolders(machine.id, path));
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const close = () => dialog.current?.close();
  const closeAndSelect = (selected: string) => {
    close();
    onSelect(selected);
  };
  const shownPath = value?.path ?? path;
  return (
    <dialog
      class="dialog sheet directory-browser"
      ref={dialog}
      aria-labelledby={titleId}
      onClose={onClose}
      onClick={({ target }) => target === dialog.current && close()}
    >
      <h2 id={titleId}>
        Directories on <EscapedText text={computerName(machine)} />
      </h2>
      <Breadcrumbs path={shownPath} roots={value?.roots ?? served} homeDir={machine.metadata?.homeDir} onOpen={setPath} />
      <div
        class="directory-content"
        onKeyDown={(event) => {
          // Enter in the filter would send the form around the sheet.
          if (event.key === 'Enter' && event.target instanceof HTMLInputElement) event.preventDefault();
        }}
      >
        {error !== null ? (
          <ErrorNotice text={error} onRetry={refetch} />
        ) : value === undefined ? (
          <Skeleton label="Loading the folders" lines={6} />
        ) : value === null ? (
          <p class="notice">This machine cannot list its folders. Update the agent on it, or type the path.</p>
        ) : (
          <Folders key={value.path} list={value} homeDir={machine.metadata?.homeDir} onOpen={setPath} />
        )}
      </div>
      <div class="directory-actions">
        {value && value.path !== null && <PinButton machineId={machine.id} directory={value.path} label={nameOf(value.path)} />}
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        {value !== null && (
          <button
            type="button"
            class="button primary"
            disabled={!value || value.path === null}
            onClick={() => value?.path && closeAndSelect(value.path)}
          >
            <span class="ellipsis">{value?.path ? `Use ${nameOf(value.path)}` : 'Use this folder'}</span>
          </button>
        )}
      </div>
    </dialog>
  );
}

const nameOf = (path: string) => escapeText(path.split(/[\\/]/).filter(Boolean).at(-1) ?? path);

interface BreadcrumbsProps {
  path: string | null;
  roots: string[];
  homeDir: string | undefined;
  onOpen: (path: string | null) => void;
}

function Breadcrumbs({ path, roots, homeDir, onOpen }: BreadcrumbsProps) {
  const crumbs = path === null ? [] : breadcrumbsOf(path, roots, homeDir);
  const list = useRef<HTMLOListElement>(null);
  // The end of a long path is shown.
  useLayoutEffect(() => list.current?.lastElementChild?.scrollIntoView({ block: 'nearest', inline: 'end' }), [path]);
  return (
    <nav aria-label="Path">
      <ol class="breadcrumbs" ref={list}>
        {(roots.length !== 1 || path === null) && (
          <li>
            <button type="button" aria-current={path === null ? 'page' : undefined} onClick={() => onOpen(null)}>
              All
            </button>
          </li>
        )}
        {crumbs.map(({ label, path: target }) => (
          <li key={target}>
            <button type="button" class="name" aria-current={target === path ? 'page' : undefined} onClick={() => onOpen(target)}>
              <EscapedText text={label} />
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function Folders({ list, homeDir, onOpen }: { list: FolderList; homeDir: string | undefined; onOpen: (path: string) => void }) {
  const [filter, setFilter] = useState('');
  const [showsHidden, setShowsHidden] = useState(false);
  const folders: Folder[] =
    list.path === null ? list.roots.map((root) => ({ name: shortenPath(root, homeDir), path: root })) : list.folders;
  const isHidden = ({ name }: Folder) => list.path !== null && name.startsWith('.');
  const text = filter.trim().toLowerCase();
  const matching = text === '' ? folders : folders.filter(({ name }) => name.toLowerCase().includes(text));
  const hiddenCount = text === '' && !showsHidden ? matching.filter(isHidden).length : 0;
  const shown = hiddenCount === 0 ? matching : matching.filter((folder) => !isHidden(folder));
  const container = useRef<HTMLUListElement>(null);
  // The pressed button is gone, and the focus with it.
  useEffect(() => container.current?.focus({ preventScroll: true }), []);
  return (
    <>
      {folders.length > MAX_UNFILTERED && (
        <SearchField label="Filter the folders" placeholder="Filter the folders" value={filter} onChange={setFilter} />
      )}
      <ul
        role="list"
        class="folders"
        ref={container}
        tabIndex={-1}
        aria-label={list.path === null ? 'Directories that the machine serves' : `Folders in ${nameOf(list.path)}`}
      >
        {shown.map((folder) => (
          <li key={folder.path}>
            <button type="button" onClick={() => onOpen(folder.path)}>
              {folder.isGitRepository ? <FolderGit2 size={18} /> : <FolderIcon size={18} />}
              <span class="ellipsis name">
                <EscapedText text={folder.name} />
              </span>
              {folder.isGitRepository && <span class="muted small">git</span>}
              <ChevronRight size={16} class="open-icon" />
            </button>
          </li>
        ))}
      </ul>
      {shown.length === 0 && hiddenCount === 0 && <p class="muted small">{text === '' ? 'No folders here.' : 'No folder matches.'}</p>}
      {hiddenCount > 0 && (
        <button type="button" class="button quiet" onClick={() => setShowsHidden(true)}>
          {hiddenCount === 1 ? 'Show 1 hidden folder' : `Show ${formatCount(hiddenCount)} hidden folders`}
        </button>
      )}
      {list.more > 0 && <p class="muted small">{formatCount(list.more)} more folders are not listed. Type the path to use one of them.</p>}
    </>
  );
}
