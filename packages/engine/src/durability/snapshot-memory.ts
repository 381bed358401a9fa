/**
 * What one run remembers between its snapshots of one session: digests of files that never change, and immutable objects
 * that a failed snapshot may have overwritten. Losing it costs time, never correctness.
 */
export class SnapshotMemory {}
