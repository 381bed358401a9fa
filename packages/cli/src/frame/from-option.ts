import { Option } from '@commander-js/extra-typings'

/** Where to read a session from. */
export interface FromOptions {
  from?: 'local' | 'store' | undefined
}

/** `--from local|store`, for commands that only read. */
export function fromOption(): Option<'--from <place>', undefined, undefined, undefined, false, 'local' | 'store'> {
  return new Option(
    '--from <place>',
    'read this machine or the object store (default: this machine where it has the session)',
  ).choices(['local', 'store'] as const)
}
