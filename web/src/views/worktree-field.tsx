/** The choice of a git worktree: its name, which may be that of a branch, and the branch from which a new branch starts. */

import { useEffect, useState } from 'preact/hooks';
import type { StartField } from '../content/start-error.ts';
import { type BranchList, fetchBranches } from '../state/machine-directories.ts';
import { type FetchState, useFetch } from '../ui/use-fetch.ts';
import { errorAttributes, FieldError } from './form-error.tsx';

/** The branches are fetched after a pause in typing. */
const TYPING_PAUSE_MS = 300;

/** Fetches the branches of a directory. `null`: there is no directory, or its machine cannot list branches. */
export function useBranches(machineId: string | undefined, directory: string): FetchState<BranchList | null> {
  const key = `${machineId}\0${directory}`;
  const [settled, setSettled] = useState({ key, machineId, directory });
  useEffect(() => {
    const timer = setTimeout(() => setSettled({ key, machineId, directory }), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [key]);
  const fetched = useFetch(settled.key, async () =>
    settled.machineId === undefined || settled.directory === '' ? null : fetchBranches(settled.machineId, settled.directory),
  );
  return settled.key === key ? fetched : { ...fetched, value: undefined, error: null, isLoading: true };
}

interface Props {
  /** Whether a worktree is used. */
  isUsed: boolean;
  name: string;
  /** Empty for the commit that is checked out. */
  branch: string;
  branches: FetchState<BranchList | null>;
  /** Whether `name` is an existing branch, which the worktree continues. */
  continuesBranch: boolean;
  errorOf: (field: StartField) => string | null;
  onUse: (isUsed: boolean) => void;
  onName: (name: string) => void;
  onBranch: (branch: string) => void;
}

export function WorktreeField({ isUsed, name, branch, branches, continuesBranch, errorOf, onUse, onName, onBranch }: Props) {
  return (
    <div>
      <label class="check">
        <input type="checkbox" checked={isUsed} onChange={({ currentTarget }) => onUse(currentTarget.checked)} />
        <span>
          Use a new git worktree
          <br />
          <span class="muted small">Works on a branch in a separate checkout. The directory itself is not changed.</span>
        </span>
      </label>
      {isUsed && (
        <div class="worktree-fields">
          <div class="field">
            <label for="worktree">Worktree and branch name</label>
            <input
              id="worktree"
              class="input mono"
              value={name}
              list="available-branches"
              autocomplete="off"
              autocapitalize="none"
              spellcheck={false}
              {...errorAttributes('worktree', errorOf('worktree'))}
              onInput={({ currentTarget }) => onName(currentTarget.value)}
            />
            <datalist id="available-branches">
              {branches.value?.available.map((item) => (
                <option key={item} value={item} />
              ))}
            </datalist>
            <p class="muted small" role="status">
              {continuesBranch && 'This branch exists. The session continues it.'}
            </p>
            <FieldError field="worktree" text={errorOf('worktree')} />
          </div>
          {branches.value !== null && !continuesBranch && (
            <div class="field">
              <label for="branch">Start from</label>
              <BranchSelect branch={branch} branches={branches} error={errorOf('branch')} onBranch={onBranch} />
              <FieldError field="branch" text={errorOf('branch') ?? branches.error} />
            </div>
          )}
        </div>
      )}
    </div>
  );
}

interface SelectProps extends Pick<Props, 'branch' | 'branches' | 'onBranch'> {
  error: string | null;
}

function BranchSelect({ branch, branches: { value, isLoading, error: fetchError }, error, onBranch }: SelectProps) {
  const { current = null, branches = [], more = 0 } = value ?? {};
  const checkedOut = current ?? 'the commit that is checked out';
  return (
    <select
      id="branch"
      class="input"
      value={branch}
      disabled={!value}
      {...errorAttributes('branch', error ?? fetchError)}
      onChange={({ currentTarget }) => onBranch(currentTarget.value)}
    >
      <option value="">{value ? checkedOut : isLoading ? 'Loading the branches …' : 'The commit that is checked out'}</option>
      {branches
        .filter((item) => item !== current)
        .map((item) => (
          <option key={item} value={item}>
            {item}
          </option>
        ))}
      {more > 0 && <option disabled>{more} older branches are not listed</option>}
    </select>
  );
}
