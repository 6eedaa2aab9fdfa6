//! An opendal service in memory, one call of which can be made to fail.

use opendal_core::raw::{
    OpCopier, OpCopy, OpCreateDir, OpList, OpPresign, OpRead, OpRename, OpStat, OpWrite,
    RpCreateDir, RpPresign, RpRead, RpRename, RpStat, Service, ServiceInfo, Servicer, oio,
};
use opendal_core::{
    Buffer, BytesRange, Capability, Error, ErrorKind, Metadata, OperationContext, Operator, Result,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Which call fails.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    armed: AtomicBool,
    after_the_fact: AtomicBool,
    calls_left: AtomicI64,
    failed: AtomicBool,
}

impl Failures {
    /// Lets the `n`-th call from now on fail, once; `after_the_fact`: when it has done its work.
    pub(crate) fn fail_at(&self, n: i64, after_the_fact: bool) {
        self.calls_left.store(n, Ordering::SeqCst);
        self.after_the_fact.store(after_the_fact, Ordering::SeqCst);
        self.failed.store(false, Ordering::SeqCst);
        self.armed.store(true, Ordering::SeqCst);
    }

    /// No more failures; whether there was one.
    pub(crate) fn reset(&self) -> bool {
        self.armed.store(false, Ordering::SeqCst);
        self.failed.load(Ordering::SeqCst)
    }

    /// Makes a call, or not.
    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let fails = self.armed.load(Ordering::SeqCst)
            && self.calls_left.fetch_sub(1, Ordering::SeqCst) == 0;
        if !fails {
            return call.await;
        }
        self.failed.store(true, Ordering::SeqCst);
        if self.after_the_fact.load(Ordering::SeqCst) {
            let _ = call.await;
        }
        Err(Error::new(ErrorKind::Unexpected, "the network is down"))
    }
}

#[derive(Debug)]
pub(crate) struct FailingService {
    inner: Servicer,
    failures: Arc<Failures>,
}

impl FailingService {
    pub(crate) fn over_memory() -> (Operator, Arc<Failures>) {
        let memory = Operator::new(opendal_core::services::Memory::default()).unwrap();
        let failures = Arc::new(Failures::default());
        let service = Self { inner: memory.base_service().clone(), failures: failures.clone() };
        let operator = Operator::from_parts(OperationContext::default(), Arc::new(service));
        (operator, failures)
    }

    /// Names of all files below a path.
    pub(crate) fn names(operator: &Operator, below: &str) -> Vec<String> {
        let listed =
            futures::executor::block_on(async { operator.list_with(below).recursive(true).await });
        let files = listed.unwrap().into_iter().filter(|entry| entry.metadata().is_file());
        files.map(|entry| entry.path().to_owned()).collect()
    }
}

impl Service for FailingService {
    type Reader = FailingReader;
    type Writer = FailingWriter;
    type Lister = oio::Lister;
    type Deleter = FailingDeleter;
    type Copier = oio::Copier;

    fn info(&self) -> ServiceInfo {
        self.inner.info_dyn()
    }

    fn capability(&self) -> Capability {
        self.inner.capability_dyn()
    }

    async fn create_dir(
        &self,
        context: &OperationContext,
        path: &str,
        args: OpCreateDir,
    ) -> Result<RpCreateDir> {
        self.inner.create_dir_dyn(context, path, args).await
    }

    async fn stat(&self, context: &OperationContext, path: &str, args: OpStat) -> Result<RpStat> {
        self.failures.call(self.inner.stat_dyn(context, path, args)).await
    }

    fn read(&self, context: &OperationContext, path: &str, args: OpRead) -> Result<FailingReader> {
        let inner = self.inner.read_dyn(context, path, args)?;
        Ok(FailingReader { inner, failures: self.failures.clone() })
    }

    fn write(
        &self,
        context: &OperationContext,
        path: &str,
        args: OpWrite,
    ) -> Result<FailingWriter> {
        let inner = self.inner.write_dyn(context, path, args)?;
        Ok(FailingWriter { inner, failures: self.failures.clone() })
    }

    fn delete(&self, context: &OperationContext) -> Result<FailingDeleter> {
        let inner = self.inner.delete_dyn(context)?;
        Ok(FailingDeleter { inner, failures: self.failures.clone() })
    }

    fn list(&self, context: &OperationContext, path: &str, args: OpList) -> Result<oio::Lister> {
        self.inner.list_dyn(context, path, args)
    }

    fn copy(
        &self,
        context: &OperationContext,
        from: &str,
        to: &str,
        args: OpCopy,
        options: OpCopier,
    ) -> Result<oio::Copier> {
        self.inner.copy_dyn(context, from, to, args, options)
    }

    async fn rename(
        &self,
        context: &OperationContext,
        from: &str,
        to: &str,
        args: OpRename,
    ) -> Result<RpRename> {
        self.inner.rename_dyn(context, from, to, args).await
    }

    async fn presign(
        &self,
        context: &OperationContext,
        path: &str,
        args: OpPresign,
    ) -> Result<RpPresign> {
        self.inner.presign_dyn(context, path, args).await
    }
}

pub(crate) struct FailingReader {
    inner: oio::Reader,
    failures: Arc<Failures>,
}

impl oio::Read for FailingReader {
    async fn open(&self, range: BytesRange) -> Result<(RpRead, Box<dyn oio::ReadStreamDyn>)> {
        self.failures.call(self.inner.open(range)).await
    }

    async fn read(&self, range: BytesRange) -> Result<(RpRead, Buffer)> {
        self.failures.call(self.inner.read(range)).await
    }
}

pub(crate) struct FailingWriter {
    inner: oio::Writer,
    failures: Arc<Failures>,
}

impl oio::Write for FailingWriter {
    async fn write(&mut self, buffer: Buffer) -> Result<()> {
        self.failures.call(self.inner.write(buffer)).await
    }

    async fn close(&mut self) -> Result<Metadata> {
        self.failures.call(self.inner.close()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

pub(crate) struct FailingDeleter {
    inner: oio::Deleter,
    failures: Arc<Failures>,
}

impl oio::Delete for FailingDeleter {
    async fn delete(&mut self, path: &str, args: opendal_core::raw::OpDelete) -> Result<()> {
        self.inner.delete(path, args).await
    }

    async fn close(&mut self) -> Result<()> {
        self.failures.call(self.inner.close()).await
    }
}
