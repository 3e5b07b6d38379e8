import java.util.List;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.util.MessageBatch;

/** The API of JGroups 5. */
final class Binding implements Receiver, Driver.Group {
    private final Driver driver;
    private final JChannel channel;

    Binding(Driver driver, String stack, String name) throws Exception {
        this.driver = driver;
        channel = new JChannel(stack).name(name).setReceiver(this);
    }

    @Override
    public void connect(String cluster) throws Exception {
        channel.connect(cluster);
    }

    @Override
    public void send(Object dest, byte[] payload, boolean outOfBand) throws Exception {
        Message message = new BytesMessage((Address) dest, payload);
        if (outOfBand)
            message.setFlag(Message.Flag.OOB);
        channel.send(message);
    }

    @Override
    public List<?> members() {
        return channel.getView().getMembers();
    }

    @Override
    public Object self() {
        return channel.getAddress();
    }

    @Override
    public void close() {
        channel.close();
    }

    @Override
    public void receive(Message message) {
        driver.received(message.getSrc(), message.getArray(), message.getOffset(), message.getLength(),
                        message.isFlagSet(Message.Flag.OOB));
    }

    @Override
    public void receive(MessageBatch batch) {
        if (driver.singly())
            Receiver.super.receive(batch);                      // what JGroups does for a receiver without this method
        else
            for (Message message : batch)
                receive(message);
    }

    @Override
    public void viewAccepted(View view) {
        if (channel.isConnected())                              // the first view comes while connecting
            driver.viewed();
    }
}
